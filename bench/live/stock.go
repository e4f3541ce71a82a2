package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// stockConfig is upstream's default profile under Berth's name, so that all variants read the very same pods,
// with the limits of its client lifted.
const stockConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  contentType: application/vnd.kubernetes.protobuf
  qps: 100000
  burst: 100000
profiles:
- schedulerName: %s
`

// The stock scheduler's gates: for gangs it needs its own kind of them, which slows down single pods.
const (
	gatesForPods  = "GenericWorkload=false"
	gatesForGangs = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
)

// stock is a part: the stock kube-scheduler with the kubeconfig args[0] and the feature gates args[1].
func stock(ctx context.Context, args []string) error {
	file := args[0] + ".yaml"
	if err := os.WriteFile(file, fmt.Appendf(nil, stockConfig, args[0], schedulerName), 0o600); err != nil {
		return err
	}
	o := schedulerapp.NewOptions()
	fs := pflag.NewFlagSet("kube-scheduler", pflag.ContinueOnError)
	for _, f := range o.Flags.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse([]string{"--config=" + file, "--secure-port=0", "--feature-gates=" + args[1]}); err != nil {
		return err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	cfg, sched, err := app.Setup(ctx, o)
	if err != nil {
		return err
	}
	if err := app.Run(ctx, cfg, sched); ctx.Err() == nil {
		return err
	}
	return nil
}
