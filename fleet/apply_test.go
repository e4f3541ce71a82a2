package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestCompare(t *testing.T) {
	same, grown := plainPool("same", 2), plainPool("grown", 2)
	asWritten := v1alpha1.Pool{} // without defaults, as a user gives it
	asWritten.Name, asWritten.Spec.Nodes = "same", new(int32(2))
	bigger := *plainPool("grown", 3)
	bigger.UID = ""
	grown.ResourceVersion = "41"

	var got []string
	for _, ch := range compare(
		[]v1alpha1.Pool{*plainPool("gone", 1), *same, *grown},
		[]v1alpha1.Pool{bigger, asWritten, *plainPool("fresh", 1)},
	) {
		got = append(got, ch.verb+" "+ch.pool.Name)
		if ch.verb == configured && (ch.pool.ResourceVersion != "41" || *ch.pool.Spec.Nodes != 3) {
			t.Errorf("update of version %q to %d nodes", ch.pool.ResourceVersion, *ch.pool.Spec.Nodes)
		}
	}
	if diff := cmp.Diff([]string{"created fresh", "deleted gone", "configured grown"}, got); diff != "" {
		t.Error(diff)
	}
}
