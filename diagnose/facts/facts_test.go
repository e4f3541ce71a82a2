package facts

import "testing"

// What could not be read hides no more, and no less, than it says.
func TestSees(t *testing.T) {
	f := &Facts{Unseen: []Unseen{
		{Resource: "nodes", Reason: "forbidden"},
		{Resource: "pods", Except: "team-a", Reason: "forbidden"},
		{Resource: "pods/log", Namespace: "team-b", Reason: "forbidden"},
	}}
	for _, c := range []struct {
		resource, namespace string
		want                bool
	}{
		{"nodes", "", false}, {"nodes", "team-a", false},
		{"pods", "", false}, {"pods", "team-a", true}, {"pods", "team-b", false},
		{"pods/log", "", false}, {"pods/log", "team-a", true}, {"pods/log", "team-b", false},
		{"events", "", true}, {"events", "team-a", true},
	} {
		if got := f.Sees(c.resource, c.namespace); got != c.want {
			t.Errorf("%s in %q: seen %v, want %v", c.resource, c.namespace, got, c.want)
		}
	}
	if got, want := f.Unseen[1].String(), "pods outside namespace team-a: forbidden"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}
