package capacity_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/berth-dev/berth/capacity"
)

// BenchmarkLedger is an update of one machine in an account of 100,000 GPUs. The bar is 1 ms, and 200 MiB for the ledger.
func BenchmarkLedger(b *testing.B) {
	const machines, each = 12_500, 8
	unit := func(i, stage int) (string, []capacity.GPU) {
		name := fmt.Sprintf("reservation-%d/%d", i%100, i)
		gpus := make([]capacity.GPU, each)
		for g := range gpus {
			gpus[g] = capacity.GPU{ID: capacity.ID{Unit: name, Index: g}, Price: capacity.Price{Known: true, Micro: 7_912_000, Currency: "USD"}, Account: capacity.Account{
				Reservation: fmt.Sprintf("reservation-%d", i%100), Pool: fmt.Sprintf("pool-%d", i%1000), Zone: fmt.Sprintf("zone-%d", i%5), Stage: capacity.Stage(stage % 9), Cause: "some-cause", Owner: "platform",
			}}
		}
		return name, gpus
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := capacity.New()
	for i := range machines {
		name, gpus := unit(i, i)
		if err := l.Observe(start, name, gpus); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	at := start
	for i := 0; b.Loop(); i++ {
		at = at.Add(time.Millisecond)
		name, gpus := unit(i%machines, i/machines+i+1)
		if err := l.Observe(at, name, gpus); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MiB")
	runtime.KeepAlive(l)
}
