package why_test

import (
	"testing"

	"github.com/berth-dev/berth/engine/why"
)

func TestWorkloadNames(t *testing.T) {
	for key, want := range map[string]string{
		"team-a/x":              "pod team-a/x",
		"team-a/gang/train":     "gang team-a/train",
		"team-a/podgroup/train": "PodGroup team-a/train",
		"odd":                   "odd",
	} {
		if got := why.WorkloadName(key); got != want || why.WorkloadKey(got) != key {
			t.Errorf("%s is called %q, which is %q", key, got, why.WorkloadKey(got))
		}
	}
	for _, key := range []string{"team-a/x", "team-a/gang/train", "a workload of queue b " + why.WorkloadMark("x/y")} {
		if got := why.WorkloadKey(key); got != key {
			t.Errorf("%q is taken for %q", key, got)
		}
	}
}

// Who reads one namespace is not told what is in another.
func TestWorkloadsOfOthers(t *testing.T) {
	for _, c := range []struct{ namespace, key, queue, want string }{
		{"team-a", "team-a/podgroup/train", "research", "PodGroup team-a/train"},
		{"team-b", "team-a/podgroup/train", "research", "a workload of queue research"},
		{"team", "team-a/x", "", "a workload of another namespace"},
	} {
		if got := why.WorkloadFor(c.namespace, c.key, c.queue); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if a, b := why.WorkloadMark("a/x"), why.WorkloadMark("a/y"); a == b || a != why.WorkloadMark("a/x") {
		t.Errorf("%s %s", a, b)
	}
}
