// Command packing makes the tables of docs/packing.md: what the policies leave unallocated on the openb trace, without and with
// moves, and the MIG study. It is a tool: nothing calls it but `make packing`.
//
//	BERTH_TRACES=FOLDER go run ./engine/internal/packing [-only openb|moves|mig] [-seeds 10]
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/berth-dev/berth/engine/internal/fragment"
	"github.com/berth-dev/berth/engine/internal/packing/mig"
	"github.com/berth-dev/berth/engine/internal/packing/openb"
)

func main() {
	only := flag.String("only", "", "one of openb, moves, mig; all where empty")
	seeds := flag.Int64("seeds", 10, "seeds of the replay, from 42 on")
	flag.Parse()
	if err := tables(os.Stdout, *only, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "packing:", err)
		os.Exit(1)
	}
}

func tables(out io.Writer, only string, seeds int64) error {
	if only == "" || only == "mig" {
		migTable(out)
		optimumTable(out)
	}
	if only == "mig" {
		return nil
	}
	folder := os.Getenv("BERTH_TRACES")
	if folder == "" {
		return fmt.Errorf("BERTH_TRACES names no folder with the openb trace (docs/packing.md says where it is from)")
	}
	dir := os.DirFS(folder)
	if only == "" || only == "openb" {
		if err := openbTable(out, dir, seeds); err != nil {
			return err
		}
	}
	if only == "" || only == "moves" {
		return movesTable(out, dir, min(seeds, 3))
	}
	return nil
}

func load(dir fs.FS, name string) (*openb.Workload, error) {
	nodes, err := openb.Nodes(dir)
	if err != nil {
		return nil, err
	}
	pods, err := openb.Pods(dir, name)
	if err != nil {
		return nil, err
	}
	return openb.NewWorkload(name, nodes, pods), nil
}

// openbTable is the share of GPUs that is unallocated at 100 % arrivals, the mean over seeds.
func openbTable(out io.Writer, dir fs.FS, seeds int64) error {
	names, err := openb.Workloads(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| workload | BestFit | FGD | Berth | Berth less FGD | Berth's worst seed |\n|---|---|---|---|---|---|\n")
	for _, name := range names {
		w, err := load(dir, name)
		if err != nil {
			return err
		}
		var sum [3]float64
		worst := 0.0
		for seed := int64(42); seed < 42+seeds; seed++ {
			a := openb.Inflate(w.Pods, w.Nodes, seed)
			for i, s := range []openb.Scorer{openb.BestFit{}, openb.NewFGD(w), openb.NewBerth(w, fragment.Default)} {
				res, err := openb.Run(w, a, s)
				if err != nil {
					return fmt.Errorf("%s, seed %d: %w", name, seed, err)
				}
				sum[i] += res.Unallocated[100] / float64(seeds)
				if i == 2 {
					worst = max(worst, res.Unallocated[100])
				}
			}
		}
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.2f | %+.2f | %.2f |\n", name, sum[0], sum[1], sum[2], sum[2]-sum[1], worst)
	}
	fmt.Fprintln(out)
	return nil
}

// movesTable is the curve of what is unallocated against the pods that may be moved, on the default workload. It takes
// minutes, so that it has three seeds at most.
func movesTable(out io.Writer, dir fs.FS, seeds int64) error {
	w, err := load(dir, "default")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| pods that may be moved, %% | moved, %% | unallocated, %% |\n|---|---|---|\n")
	for _, budget := range []int{0, 1, 2, 5, 10} {
		var moved, left float64
		for seed := int64(42); seed < 42+seeds; seed++ {
			res, err := openb.RunMoving(w, openb.Inflate(w.Pods, w.Nodes, seed).Until(w, 101), openb.NewBerth(w, fragment.Default), budget)
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			moved += 100 * float64(res.Moved) / float64(res.Placed) / float64(seeds)
			left += res.Unallocated[100] / float64(seeds)
		}
		fmt.Fprintf(out, "| %.1f | %.2f | %.2f |\n", float64(budget)/10, moved, left)
	}
	fmt.Fprintln(out)
	return nil
}

// migTable is the share of requests that are refused while enough slices are free, over five seeds.
func migTable(out io.Writer) {
	fmt.Fprintf(out, "| mix | load, %% | first-fit | static | Berth | Berth / first-fit | Berth with moves | with moves / first-fit | moved | all moved at every arrival |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, mix := range mig.Mixes {
		for _, load := range []float64{0.70, 0.85, 0.95} {
			var first, static, worth, moving, instances, repacked float64
			for seed := int64(1); seed <= 5; seed++ {
				c := mig.Case{Cards: 200, Arrivals: 10_000, Load: load, Mix: mix, Seed: seed}
				first += mig.Run(c, mig.FirstFit{}).Share() / 5
				static += mig.Static(c).Share() / 5
				worth += mig.Run(c, mig.NewWorth(mix)).Share() / 5
				res, moved := mig.Moving(c)
				moving += res.Share() / 5
				instances += 100 * float64(moved) / float64(c.Arrivals) / 5
				repacked += mig.Repacked(c).Share() / 5
			}
			ratio := func(share float64) string {
				if first == 0 {
					return "-"
				}
				return fmt.Sprintf("%.2f", share/first)
			}
			fmt.Fprintf(out, "| %s | %.0f | %.2f | %.2f | %.2f | %s | %.2f | %s | %.2f | %.2f |\n", mix.Name, 100*load, first, static, worth, ratio(worth), moving, ratio(moving), instances, repacked)
		}
	}
	fmt.Fprintln(out)
}

// optimumTable is the same at 95 % on so few cards that the best policy can be computed.
func optimumTable(out io.Writer) {
	fmt.Fprintf(out, "| cards | mix | first-fit | Berth | the least possible | least / first-fit |\n|---|---|---|---|---|---|\n")
	for cards := 1; cards <= 3; cards++ {
		for _, mix := range mig.Mixes {
			c := mig.Case{Cards: cards, Arrivals: 400_000, Load: 0.95, Mix: mix, Seed: 1}
			first, least := mig.Run(c, mig.FirstFit{}).Share(), mig.Optimal(c)
			fmt.Fprintf(out, "| %d | %s | %.2f | %.2f | %.2f | %.2f |\n", cards, mix.Name, first, mig.Run(c, mig.NewWorth(mix)).Share(), least, least/first)
		}
	}
	fmt.Fprintln(out)
}
