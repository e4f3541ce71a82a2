package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A seed gives the same faults again, in the same order and at the same distance; another seed gives others.
func TestTheSeedIsTheSchedule(t *testing.T) {
	if diff := cmp.Diff(schedule(7), schedule(7)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(schedule(7), schedule(8)) {
		t.Error("two seeds, one schedule")
	}
}

func TestEveryRoundHasEveryFault(t *testing.T) {
	want, got := make(map[string]int), make(map[string]int)
	for _, f := range deck {
		want[f.name]++
	}
	for _, b := range deal(rand.New(rand.NewPCG(1, 1))) {
		got[b.name]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every workload could run on an empty cluster: what waits at rest waits for room, not for ever.
func TestWorkFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		c := draw(r, fmt.Sprint(i))
		total, most := int64(c.members)*c.gpus, int64(nodes*8)
		if c.rack {
			most = nodes * 8 / 4
		}
		if c.members < 1 || c.min > c.members || c.gpus < 1 || c.gpus > 8 || total > most {
			t.Fatalf("%+v", c)
		}
		if c.life < time.Second || c.scheduler == "" {
			t.Fatalf("%+v", c)
		}
	}
}

func schedule(seed uint64) (out []string) {
	for _, b := range deal(rand.New(rand.NewPCG(seed, 0))) {
		out = append(out, fmt.Sprint(b.gap, b.name, b.what))
	}
	return out
}
