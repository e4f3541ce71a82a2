// Command berth is the one binary: a Kubernetes control plane, a simulated GPU fleet, and
// the command line over both.
package main

import (
	"os"

	"github.com/berth-dev/berth/cli"
	"github.com/berth-dev/berth/controlplane"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cli.Main(os.Args[1:], streams, cli.Deps{
		StartControlPlane: startControlPlane,
		Kubectl:           kubectl,
		Kubernetes:        controlplane.KubernetesVersion,
		Program:           os.Args[0],
	}))
}
