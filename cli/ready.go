package cli

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/controlplane/home"
)

// printReady says what is there now and what to do with it.
func (o *upOptions) printReady(dir home.Dir, seconds float64) {
	what := "Kubernetes " + o.deps.Kubernetes
	use, err := look(context.Background(), dir)
	if err == nil {
		what += ", " + plural(use.Nodes.Total, "node") + ", " + plural(use.GPUs.Allocatable, "GPU")
	}
	fmt.Fprintf(o.streams.Out, "Cluster %q is ready: %s (%.1fs)\n\n", o.name, what, seconds)
	fmt.Fprintf(o.streams.Out, "  export KUBECONFIG=%s\n\n", dir.Kubeconfig())
	fmt.Fprintln(o.streams.Out, "Try, with your own kubectl or with the one inside:")
	for _, line := range suggestions(o.deps.Program, o.name, use) {
		fmt.Fprintln(o.streams.Out, "  "+line)
	}
	another := o.deps.Program + " ui"
	if o.name != defaultName {
		another += " --name " + o.name
	}
	if o.page == "" {
		fmt.Fprintf(o.streams.Out, "\nLook at it in a browser:\n  %s\n", another)
	} else {
		fmt.Fprintf(o.streams.Out, "\nLook at it in a browser; the link works once, `%s` makes another:\n  %s\n", another, o.page)
	}
	if !o.detach {
		fmt.Fprintln(o.streams.Out, "\nCtrl-C stops the cluster.")
	}
}

// suggestions are three commands that work as they stand on the cluster that came up.
func suggestions(program, name string, use clusterUse) []string {
	kubectl := program + " kubectl"
	if name != defaultName {
		kubectl += " --name " + name
	}
	nodes := kubectl + ` get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\.com/gpu,MODEL:.metadata.labels.nvidia\.com/gpu\.product'`
	if use.GPUs.Allocatable == 0 && use.worker != "" {
		return []string{
			nodes,
			kubectl + ` patch node ` + use.worker + ` --subresource=status --type=merge -p '{"status":{"capacity":{"nvidia.com/gpu":"1"}}}'`,
			kubectl + ` get node ` + use.worker + ` -o jsonpath='{.status.allocatable.nvidia\.com/gpu}'`,
		}
	}
	return []string{
		nodes,
		kubectl + ` run gpu-test --restart=Never --image=nvidia/cuda:12.8.0-base-ubuntu24.04 --overrides='{"spec":{"containers":[{"name":"gpu-test","image":"nvidia/cuda:12.8.0-base-ubuntu24.04","command":["nvidia-smi"],"resources":{"limits":{"nvidia.com/gpu":1}}}]}}'`,
		kubectl + ` logs gpu-test`,
	}
}

// agree is the word that goes with a count: "1 has", "3 have".
func agree[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
