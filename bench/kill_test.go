package bench

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	kills   = 100
	writers = 8
)

// BenchmarkKill9 kills the process a hundred times while clients write, starts it again,
// and looks for every object whose creation was acknowledged. It fails on the first that
// is missing; the figure is how long a restart takes.
func BenchmarkKill9(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		c.up("--fleet", "layers")
		kept := map[string]bool{}
		var starting time.Duration
		for round := range kills {
			acked := writeUntilKilled(b, c, round)
			maps.Copy(kept, acked)
			c.up()
			starting += c.took
			check(b, c.client(), kept)
		}
		b.ReportMetric(float64(len(kept)), "objects-kept")
		b.ReportMetric(kills, "kills")
		b.ReportMetric(starting.Seconds()/kills, "s/restart")
	}
	b.ReportMetric(0, "ns/op")
}

// writeUntilKilled has clients create ConfigMaps, kills the cluster under them at a moment
// that differs from round to round, and returns the names that were acknowledged.
func writeUntilKilled(b *testing.B, c *cluster, round int) map[string]bool {
	b.Helper()
	client, pid := c.client(), c.pid()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	acked := map[string]bool{}
	for w := range writers {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("r%d-w%d-%d", round, w, i)
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
					return // killed
				}
				mu.Lock()
				acked[name] = true
				mu.Unlock()
			}
		})
	}
	time.Sleep(time.Duration(100+37*(round%20)) * time.Millisecond)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	return acked
}

func check(b *testing.B, client kubernetes.Interface, want map[string]bool) {
	b.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	have := map[string]bool{}
	for i := range list.Items {
		have[list.Items[i].Name] = true
	}
	for name := range want {
		if !have[name] {
			b.Fatalf("configmap %s was acknowledged and is gone", name)
		}
	}
}
