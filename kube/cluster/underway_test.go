package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPodGoesWhileItsClaimIsWritten: a pod is deleted after its start was planned and before the answer about its claim is there. Its
// device is nobody else's until it is known whether the claim has it, and as long as the claim has it.
func TestPodGoesWhileItsClaimIsWritten(t *testing.T) {
	w := newClaimed()
	w.Remove(w.nodes.objects["n1"])
	comes := func(name string) *corev1.Pod {
		c := w.claim(name, "", "")
		w.Set(c)
		p := pod(name, 0)
		p.UID, p.ResourceVersion = types.UID(name), w.next()
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &c.Name}}
		w.Set(p)
		return p
	}
	plan := func() map[string][]string {
		w.Settle()
		w.state.Apply(w.changes.take()...)
		got := make(map[string][]string)
		for _, s := range w.state.Plan(noon).Starts {
			for _, at := range s.Placements {
				got[at.Pod] = at.Devices
			}
		}
		return got
	}
	first := comes("first")
	w.Settle()
	w.state.Apply(w.changes.take()...)
	starts := w.state.Plan(noon).Starts
	if len(starts) != 1 {
		t.Fatalf("starts %v", starts)
	}
	r, _ := w.Reserve(&starts[0])
	device := starts[0].Placements[0].Devices[0]

	w.Remove(first) // the request about its claim is on its way
	comes("second")
	comes("third")
	nobody := func(when string) {
		t.Helper()
		for pod, devices := range plan() {
			if slices.Contains(devices, device) {
				t.Errorf("%s: %s is given %s", when, pod, device)
			}
		}
	}
	nobody("the claim may have it")
	written := w.claim("first", "n0", strings.TrimPrefix(device, refereeDriver+"/n0/"))
	w.Learn(written)
	nobody("the claim has it")
	w.Release(r)
	nobody("the claim has it, and the start is over")

	empty := written.DeepCopy()
	empty.ResourceVersion, empty.Status = w.next(), resourcev1.ResourceClaimStatus{}
	w.Set(empty)
	if got := slices.Concat(slices.Collect(maps.Values(plan()))...); !slices.Contains(got, device) {
		t.Errorf("given back, and only %v are given", got)
	}
	if len(w.devices.underway) > 0 {
		t.Errorf("remembered: %v", w.devices.underway)
	}
}
