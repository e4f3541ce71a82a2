package kubelet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// A node tells of images under the names that a runtime has for them, once they are there.
func TestImagesByTheirFullNames(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	h := newHost("n", nil)
	wall := func(d time.Duration) time.Duration { return d }
	h.fetch("pause", 0, wall, now)
	h.fetch("docker.io/library/pause:latest", 0, wall, now)
	h.fetch("registry.example/train@sha256:0000000000000000000000000000000000000000000000000000000000000000", 0, wall, now)
	h.fetch("registry.example/late:1", time.Minute, wall, now)
	k := &Kubelet{hosts: map[string]*host{"n": h}}
	var got [][]string
	for _, im := range k.Images("n", now) {
		got = append(got, im.Names[max(0, len(im.Names)-1):])
		if im.SizeBytes < 100_000_000 {
			t.Errorf("%v has %d bytes", im.Names, im.SizeBytes)
		}
	}
	want := [][]string{{"docker.io/library/pause:latest"}, {"registry.example/train@sha256:0000000000000000000000000000000000000000000000000000000000000000"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := k.Images("elsewhere", now); got != nil {
		t.Errorf("a node without pods has %v", []corev1.ContainerImage(got))
	}
}
