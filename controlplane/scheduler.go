package controlplane

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/berth-dev/berth/controlplane/home"
)

// schedulerConfig is upstream's default profile; only the connection is ours.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  contentType: application/vnd.kubernetes.protobuf
  qps: 1000
  burst: 2000
`

// runScheduler runs the stock kube-scheduler for `default-scheduler` until ctx ends.
func (c *Cluster) runScheduler(ctx context.Context) error {
	file := filepath.Join(c.dir.Run(), "kube-scheduler.yaml")
	text := fmt.Sprintf(schedulerConfig, c.componentConfig("kube-scheduler"))
	if err := home.WriteFile(file, []byte(text)); err != nil {
		return err
	}
	o := options.NewOptions()
	if err := parse("kube-scheduler", *o.Flags, []string{"--config=" + file, "--secure-port=0"}); err != nil {
		return err
	}
	cfg, sched, err := app.Setup(ctx, o)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg, sched)
}
