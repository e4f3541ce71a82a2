package conformance

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/why"
)

// demands are what a pod may insist on and Berth does not decide yet, each with what it is called.
var demands = []struct {
	feature why.Feature
	add     func(*corev1.PodSpec)
}{
	{why.Claims, func(s *corev1.PodSpec) {
		s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("one")}}
	}},
}

func affinity(s *corev1.PodSpec) *corev1.Affinity {
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	return s.Affinity
}

// A pod that insists on what Berth does not decide is refused by that name, wherever it would have room.
func TestUnsupportedIsRefusedByName(t *testing.T) {
	s := everyVolume()
	rapid.Check(t, func(t *rapid.T) {
		f := anyFleet(t)
		p := anyPod(t, "pod", s)
		d := rapid.SampledFrom(demands).Draw(t, "demand")
		d.add(&p.Spec)
		verdict, names := newBerth(t, f, s).verdict(t, p)
		if verdict != why.Unsupported || !slices.Contains(names, string(d.feature)) {
			t.Fatalf("asks for %s: berth says %q about %v\n%s", d.feature, verdict, names, f.text(f.nodes[0], p))
		}
	})
}

// A pod that merely wishes for such a thing is placed where it has room.
func TestWishesRefuseNothing(t *testing.T) {
	s := everyVolume()
	rapid.Check(t, func(t *rapid.T) {
		f := anyFleet(t)
		p := anyPod(t, "pod", s)
		anyWish(t, p)
		b := newBerth(t, f, s)
		room := len(b.feasible(t, p)) > 0
		if verdict, names := b.verdict(t, p); room != (verdict == why.Placed) {
			t.Fatalf("feasible nodes: %v, but berth says %q about %v\n%s", room, verdict, names, f.text(f.nodes[0], p))
		}
	})
}
