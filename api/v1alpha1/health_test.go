package v1alpha1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A broken GPU that the device plugin still advertises counts, and one that it has withdrawn is dealt with.
func TestOfferedUnhealthy(t *testing.T) {
	one := `[{"uuid":"GPU-a","gpu":"0","why":"Xid 79"}]`
	two := `[{"uuid":"GPU-a","why":"Xid 79"},{"uuid":"GPU-b","why":"Xid 48"}]`
	for _, c := range []struct {
		name                  string
		list, trusted, gpus   string
		capacity, allocatable int64
		want                  int
	}{
		{"advertised", one, "", "8", 8, 8, 1},
		{"withdrawn", one, "", "8", 8, 7, 0},
		{"one of two withdrawn", two, "", "8", 8, 7, 2},
		{"trusted", one, "GPU-a", "8", 8, 8, 0},
		{"another trusted", two, "GPU-b, GPU-c", "8", 8, 8, 1},
		{"all trusted", two, "all", "8", 8, 8, 0},
		{"shared four times, one GPU withdrawn of two", two, "", "8", 32, 28, 2},
		{"shared four times, both withdrawn", two, "", "8", 32, 24, 0},
		{"a plugin that is gone", one, "", "8", 8, 0, 0},
		{"no list", `{"uuid":1}`, "", "8", 8, 8, 0},
		{"named twice", `[{"uuid":"GPU-a","why":"x"},{"uuid":"GPU-a","why":"y"}]`, "", "8", 8, 8, 1},
		{"no name", `[{"why":"x"}]`, "", "8", 8, 8, 0},
		{"a count that lies", one, "", "-3", 8, 7, 0},
	} {
		n := &corev1.Node{}
		n.Annotations = map[string]string{KeyUnhealthyGPUs: c.list, KeyTrustedGPUs: c.trusted}
		n.Labels = map[string]string{"nvidia.com/gpu.count": c.gpus}
		n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(c.capacity, resource.DecimalSI)}
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(c.allocatable, resource.DecimalSI)}
		if got := OfferedUnhealthy(n); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.name, got, c.want)
		}
	}
}

func FuzzUnhealthyGPUs(f *testing.F) {
	f.Add(`[{"uuid":"GPU-a","gpu":"0","why":"Xid 79","since":"2026-11-18T00:00:00Z"}]`, "GPU-b,all")
	f.Fuzz(func(t *testing.T, list, trusted string) {
		n := &corev1.Node{}
		n.Annotations = map[string]string{KeyUnhealthyGPUs: list, KeyTrustedGPUs: trusted}
		if got := UnhealthyGPUs(n); len(got) > maxUnhealthyGPUs {
			t.Errorf("%d GPUs", len(got))
		}
	})
}
