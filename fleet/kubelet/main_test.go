package kubelet

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// TestMain makes room for what happens at one moment of a simulated time: the fake API server panics where a watcher is a
// hundred events behind, which a real one is told by an end of its watch.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 10_000
	os.Exit(m.Run())
}
