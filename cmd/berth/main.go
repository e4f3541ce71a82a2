// Command berth is the one binary: a Kubernetes control plane, a simulated GPU fleet, and
// the command line over both.
package main

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/cli"
	"github.com/berth-dev/berth/controlplane"
)

func main() {
	// Kubernetes' packages register flags of their own on the global set, and cobra offers
	// that set in every command's help.
	pflag.CommandLine = pflag.NewFlagSet("berth", pflag.ContinueOnError)
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, deps()))
}

func deps() cli.Deps {
	return cli.Deps{
		StartControlPlane: startControlPlane,
		Kubectl:           kubectl,
		Kubernetes:        controlplane.KubernetesVersion,
		Program:           os.Args[0],
		Lab:               cli.Lab,
	}
}
