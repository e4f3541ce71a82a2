// Command kubectl-berth is Berth for clusters that are there already: a plugin of kubectl with everything of the
// command line that needs no control plane of its own. It compiles no Kubernetes, so it is small and quick to build.
// It is also what runs in the scheduler's image.
package main

import (
	"os"

	"github.com/berth-dev/berth/cli"
)

func main() {
	streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(cli.Main(os.Args[1:], streams, cli.Deps{Program: os.Args[0]}))
}
