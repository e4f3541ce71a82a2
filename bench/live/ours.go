package main

import (
	"context"
	"fmt"
	"os"

	"github.com/berth-dev/berth/cli"
)

// ours is a part: `berth scheduler` with the kubeconfig args[0], for when a profile of it is wanted. Otherwise
// the binary that ships is measured.
func ours(_ context.Context, args []string) error {
	code := cli.Main(schedulerArgs(args[0]), cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, cli.Deps{})
	if code != 0 {
		return fmt.Errorf("berth scheduler: exit status %d", code)
	}
	return nil
}

// schedulerArgs are Berth's defaults.
func schedulerArgs(kubeconfig string) []string {
	return []string{"scheduler", "--kubeconfig", kubeconfig}
}
