package why_test

import (
	"testing"

	"github.com/berth-dev/berth/engine/why"
)

func TestWorkloadNames(t *testing.T) {
	for key, want := range map[string]string{
		"team-a/x":                       "pod team-a/x",
		"team-a/gang/train":              "gang team-a/train",
		"team-a/podgroup/train":          "PodGroup team-a/train",
		"team-a/compositepodgroup/train": "CompositePodGroup team-a/train",
		"odd":                            "odd",
	} {
		if got := why.WorkloadName(key); got != want {
			t.Errorf("%s is called %q, want %q", key, got, want)
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
}

var marker = why.NewMarker([]byte("a secret of the cluster"))

// A mark is the same as long as the secret is, and says nothing to who does not know it.
func TestMarks(t *testing.T) {
	const want = "#9282189bb03afa09"
	if got := marker.Mark("team-a/x"); got != want {
		t.Errorf("marks of pods that are being evicted would not be known again: %s, want %s", got, want)
	}
	seen := make(map[string]string)
	for _, other := range []why.Marker{marker, why.NewMarker([]byte("another secret")), {}} {
		for _, key := range []string{"team-a/x", "team-a/y", "team-a/gang/x"} {
			mark := other.Mark(key)
			if seen[mark] != "" || len(mark) < 17 {
				t.Errorf("%s has the mark %s, as %s has", key, mark, seen[mark])
			}
			seen[mark] = key
		}
	}
}
