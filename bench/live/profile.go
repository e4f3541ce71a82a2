package main

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"
)

// profileVariable names the file into which a part writes its CPU profile.
const profileVariable = "BERTH_BENCH_CPUPROFILE"

// profiled runs a part, with a CPU profile where one is wanted.
func profiled(ctx context.Context, args []string, part func(context.Context, []string) error) error {
	path := os.Getenv(profileVariable)
	if path == "" {
		return part(ctx, args)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = part(ctx, args)
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}
