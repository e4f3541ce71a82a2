package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // registers client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"    // registers build_info
	"k8s.io/klog/v2"
	kas "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// featureGates hold for the API server, the controllers and the scheduler alike.
// With WorkloadWithJob the Job controller makes a Workload and a PodGroup for every Job that has no controller of its own. Where
// spec.scheduling of the Job asks for nothing their policy is Basic, and the Job's pods are scheduled one by one (ADR 47).
// With DRAWorkloadResourceClaims, beta and off by default in v1.37.1, a PodGroup has claims that are made once and reserved for all its pods.
// CompositePodGroup serves the kind of that name in scheduling.k8s.io/v1alpha3 (ADR 165).
const featureGates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadWithJob=true,DRAWorkloadResourceClaims=true,CompositePodGroup=true"

// runtimeConfig serves the gang scheduling API in both its versions.
const runtimeConfig = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"

// noGroupGates and noGroupConfig leave out what the two above serve, and what depends on it.
const (
	noGroupGates  = "GenericWorkload=false,TopologyAwareWorkloadScheduling=false,WorkloadWithJob=false,PodGroupPreemptionPolicy=false,DRAWorkloadResourceClaims=false,CompositePodGroup=false"
	noGroupConfig = "scheduling.k8s.io/v1beta1=false,scheduling.k8s.io/v1alpha3=false"
)

// inFlight is how many requests the server takes at once. It serves one laptop's own
// components; the limits that protect a shared server would only make them wait.
const inFlight = 20000

// KubeletAddressType is the kind of node address under which the API server finds a
// node's kubelet. Simulated nodes carry plausible internal addresses and, as this one,
// the loopback name that really answers.
const KubeletAddressType = "ExternalDNS"

func (c *Cluster) apiServerFlags() []string {
	key := c.keys.file
	gates, serves, admission := featureGates, runtimeConfig, "ExtendedResourceToleration,PodGroupProtection"
	if c.noGroups {
		gates, serves, admission = noGroupGates, noGroupConfig, "ExtendedResourceToleration"
	}
	return []string{
		"--etcd-servers=" + c.etcd.endpoint,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + key("apiserver.crt"),
		"--tls-private-key-file=" + key("apiserver.key"),
		"--client-ca-file=" + key("ca.crt"),
		"--token-auth-file=" + key("tokens.csv"),
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + key("service-account.key"),
		"--service-account-signing-key-file=" + key("service-account.key"),
		"--requestheader-client-ca-file=" + key("ca.crt"),
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + key("front-proxy.crt"),
		"--proxy-client-key-file=" + key("front-proxy.key"),
		"--kubelet-certificate-authority=" + key("ca.crt"),
		"--kubelet-client-certificate=" + key("kubelet-client.crt"),
		"--kubelet-client-key=" + key("kubelet-client.key"),
		"--kubelet-preferred-address-types=" + KubeletAddressType + ",InternalIP", // the second is of real nodes: node/
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true",
		"--enable-admission-plugins=" + admission,
		"--feature-gates=" + gates,
		"--runtime-config=" + serves,
		"--enable-priority-and-fairness=false",
		fmt.Sprintf("--max-requests-inflight=%d", inFlight),
		fmt.Sprintf("--max-mutating-requests-inflight=%d", inFlight),
		"--shutdown-delay-duration=0s",
	}
}

// startAPIServer returns when the server is ready.
func (c *Cluster) startAPIServer(ctx context.Context, opts Options) error {
	o := options.NewServerRunOptions()
	if err := parse("kube-apiserver", o.Flags(), c.apiServerFlags()); err != nil {
		return err
	}
	o.SecureServing.Listener = opts.Listener
	if err := setGlobals(o, opts.Log); err != nil {
		return err
	}
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stopAPI = stop
	completed, err := o.Complete(serve)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	c.apiDone = c.spawn(serve, "kube-apiserver", func(ctx context.Context) error { return run(ctx, completed, opts.DialPod) })
	return c.waitReady(ctx)
}

// run is kube-apiserver's own Run, but that simulated pods are reached by dial, if not nil.
func run(ctx context.Context, o options.CompletedOptions, dial func(context.Context, netip.AddrPort) (net.Conn, bool, error)) error {
	name, err := cache.NewInformerName("kube-apiserver")
	if err != nil {
		return err
	}
	o.InformerName = name
	config, err := kas.NewConfig(o)
	if err != nil {
		return err
	}
	if t := config.KubeAPIs.ControlPlane.ProxyTransport; dial != nil {
		t.DialContext = podsFirst(dial, t.DialContext)
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := kas.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// podsFirst dials simulated pods, and what is none of them over the machine's network.
func podsFirst(dial func(context.Context, netip.AddrPort) (net.Conn, bool, error), otherwise dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, err := netip.ParseAddrPort(address); err == nil {
			if conn, found, err := dial(ctx, to); found {
				return conn, err
			}
		}
		return otherwise(ctx, network, address)
	}
}

// setGlobals sets what Kubernetes keeps per process: gates and versions, and the logger.
func setGlobals(o *options.ServerRunOptions, log *os.File) error {
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	klog.LogToStderr(false)
	klog.SetOutput(log)
	streams := &logsapi.LoggingOptions{ErrorStream: log, InfoStream: log}
	return logsapi.ValidateAndApplyWithOptions(o.Logs, streams, utilfeature.DefaultFeatureGate)
}

// parse fills a component's options from flags, the one interface that upstream keeps
// stable for them.
func parse(component string, sets cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet(component, pflag.ContinueOnError)
	for _, f := range sets.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("flags %s: %w", strings.Join(args, " "), err)
	}
	return nil
}
