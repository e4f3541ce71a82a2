package why_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/engine/why"
)

// FuzzWorkloadNames names any workload. Names of keys that Kubernetes can have are understood again, a workload of another
// namespace is not named, and a mark is read where it was written.
func FuzzWorkloadNames(f *testing.F) {
	for _, key := range []string{"team/x", "team/gang/x", "team/podgroup/x", "", "/", "a/b/c/d", "a b/c #1"} {
		f.Add(key, "team", "q")
	}
	f.Fuzz(func(t *testing.T, key, namespace, queue string) {
		name := why.WorkloadName(key)
		parts := strings.Split(key, "/")
		plain := !strings.ContainsAny(key, " #") && key == strings.ToLower(key) && parts[0] != "" && len(parts) <= 3 && parts[len(parts)-1] != ""
		if plain && (len(parts) == 2 || len(parts) == 3 && parts[1] != "" && parts[1] != "pod") && why.WorkloadKey(name) != key {
			t.Errorf("%q is called %q, which is %q", key, name, why.WorkloadKey(name))
		}
		if told := why.WorkloadFor(namespace, key, ""); namespace != parts[0] && told != "a workload of another namespace" {
			t.Errorf("%q is told of %q", namespace, told)
		}
		if mark := marker.Mark(key); why.MarkIn(why.WorkloadFor("other", key, "q")+" "+mark) != mark {
			t.Errorf("%q is not read again", mark)
		}
		why.MarkIn(queue)
	})
}
