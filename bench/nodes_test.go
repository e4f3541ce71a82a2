package bench

import (
	"strconv"
	"testing"
	"time"
)

// BenchmarkNodesReady is how long a running cluster takes to have this many nodes Ready.
func BenchmarkNodesReady(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for b.Loop() {
				c := newCluster(b)
				c.up("--fleet", "layers", "--ephemeral")
				client := c.client()
				start := time.Now()
				c.run("fleet", "apply", "-f", fleetFile(b, nodes))
				waitCount(b, "nodes ready", nodes, 10*time.Minute, func() int { return readyNodes(b, client) })
				b.ReportMetric(time.Since(start).Seconds(), "s/ready")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkHeartbeats is the processor time of 5,000 idle nodes, beside that of a cluster
// of 3: the difference is the price of the nodes' leases.
func BenchmarkHeartbeats(b *testing.B) {
	for _, nodes := range []int{3, 5000} {
		b.Run(strconv.Itoa(nodes), func(b *testing.B) {
			for b.Loop() {
				c := newCluster(b)
				c.up("--fleet", fleetFile(b, nodes), "--ephemeral")
				client := c.client()
				waitCount(b, "nodes ready", nodes, 10*time.Minute, func() int { return readyNodes(b, client) })
				time.Sleep(30 * time.Second)
				const watch = 2 * time.Minute
				before := c.cpu()
				time.Sleep(watch)
				b.ReportMetric((c.cpu()-before).Seconds()/watch.Seconds(), "cores")
				b.ReportMetric(c.residentMiB(), "MiB")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
