package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Pods that are above a limit say so, and keep nobody else from running. Nothing is written of them twice.
func TestPodsOverLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8))
		var names []string
		for i := range 20_000 {
			names = append(names, fmt.Sprint("M", i))
		}
		const many = 30
		for i := range many {
			p := pod(fmt.Sprint("big", i), 1)
			p.Annotations = map[string]string{v1alpha1.KeyGPUModel: strings.Join(names, ",")}
			w.add(p)
		}
		w.add(pod("small", 1))
		w.start()
		if got := w.at("small"); len(got) != 1 || got[0] != "n1" {
			t.Fatalf("the pod beside them is on %q", got)
		}
		for i := range many {
			p := w.pod(fmt.Sprint("big", i))
			if got := w.condition(p.Name); got != "False InvalidObject" {
				t.Errorf("%s: %q", p.Name, got)
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && (!strings.Contains(c.Message, "berth.dev/gpu-model: more than 32, the limit") || len(c.Message) > 500) {
					t.Errorf("it is told %.600q", c.Message)
				}
			}
		}
		w.mu.Lock()
		before := len(w.patches)
		w.mu.Unlock()
		for i := range 5 {
			w.add(pod(fmt.Sprint("more", i), 1))
			time.Sleep(time.Minute)
		}
		w.rest()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, patch := range w.patches[before:] {
			if strings.Contains(patch, " big") {
				t.Errorf("written again: %s", patch)
			}
		}
	})
}
