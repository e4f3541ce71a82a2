package bench

import (
	"testing"
	"time"
)

// BenchmarkUp is a newcomer's first wait: from the command to the lab fleet with all of its
// 32 GPUs schedulable, in an empty data folder, with fsync.
func BenchmarkUp(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		c.up("--fleet", "lab")
		b.ReportMetric(c.took.Seconds(), "s/up")
		c.run("down", "--purge")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdle is what the lab fleet costs while nobody uses it.
func BenchmarkIdle(b *testing.B) {
	const settle, watch = 30 * time.Second, 60 * time.Second
	for b.Loop() {
		c := newCluster(b)
		c.up("--fleet", "lab")
		time.Sleep(settle)
		before := c.cpu()
		time.Sleep(watch)
		b.ReportMetric((c.cpu()-before).Seconds()/watch.Seconds(), "cores")
		b.ReportMetric(c.residentMiB(), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}
