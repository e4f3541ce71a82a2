package why_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/engine/why"
)

// FuzzWorkloadNames names any workload. A name has the namespace in it, and a workload of another namespace is
// not named.
func FuzzWorkloadNames(f *testing.F) {
	for _, key := range []string{"team/x", "team/gang/x", "team/podgroup/x", "", "/", "a/b/c/d", "a b/c #1"} {
		f.Add(key, "team")
	}
	f.Fuzz(func(t *testing.T, key, namespace string) {
		home, _, named := strings.Cut(key, "/")
		if name := why.WorkloadName(key); named && !strings.Contains(name, " "+home+"/") {
			t.Errorf("%q is called %q", key, name)
		}
		if told := why.WorkloadFor(namespace, key, ""); namespace != home && told != "a workload of another namespace" {
			t.Errorf("%q is told of %q", namespace, told)
		}
	})
}
