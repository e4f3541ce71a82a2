package controlplane

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// controllers are those whose work a user of a scheduler can see.
var controllers = []string{
	// workloads
	"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
	"job-controller", "cronjob-controller", "ttl-after-finished-controller", "disruption-controller",
	// namespaces, ownership, quota
	"namespace-controller", "garbage-collector-controller", "resourcequota-controller", "pod-garbage-collector-controller",
	// identity
	"serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
	// nodes
	"node-lifecycle-controller", "taint-eviction-controller",
	// services
	"endpoints-controller", "endpointslice-controller",
	// devices and gangs
	"resourceclaim-controller", "device-taint-eviction-controller", "podgroup-protection-controller",
	// volumes
	"persistentvolume-binder-controller", "persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller", "ephemeral-volume-controller",
}

func (c *Cluster) controllerFlags(nodeGrace time.Duration) []string {
	kubeconfig := c.componentConfig("kube-controller-manager")
	flags := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.keys.file("service-account.key"),
		"--root-ca-file=" + c.keys.file("ca.crt"),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--concurrent-job-syncs=16",
		// without this it creates a system folder, which needs root
		"--flex-volume-plugin-dir=" + filepath.Join(c.dir.Run(), "flex"),
	}
	if nodeGrace > 0 {
		flags = append(flags, "--node-monitor-grace-period="+nodeGrace.String())
	}
	return flags
}

// runControllers runs until ctx ends. The feature gates are set already, by the API server
// part: they are process-wide.
func (c *Cluster) runControllers(ctx context.Context, nodeGrace time.Duration) error {
	known, off, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	sets := o.Flags(known, off, aliases)
	o.ParsedFlags = &sets
	if err := parse("kube-controller-manager", sets, c.controllerFlags(nodeGrace)); err != nil {
		return err
	}
	cfg, err := o.Config(ctx, known, off, aliases)
	if err != nil {
		return err
	}
	if err := app.Run(ctx, cfg.Complete()); err != nil {
		return err
	}
	return errors.New("no reason given")
}
