package diagnose_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// TestPodsAlikeAreRestrictedAlike holds the shortcut for gangs to what it stands for: of pods of one class every one is kept from
// the same nodes, for the same reasons.
func TestPodsAlikeAreRestrictedAlike(t *testing.T) {
	shared := 0
	look := func(name string, f *facts.Facts) {
		first := make(map[string][]check.Exclusion)
		who := make(map[string]string)
		for _, p := range f.Pods {
			key := diagnose.Class(p)
			if p.Spec.NodeName != "" || key == "" {
				continue
			}
			got := place.Exclusions(f, p)
			if want, ok := first[key]; ok {
				shared++
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: pods %s and %s are of one class (-first +second)\n%s", name, who[key], p.Name, diff)
				}
				continue
			}
			first[key], who[key] = got, p.Name
		}
	}
	for _, name := range caseNames(t) {
		look(name, loadCase(t, name, fixedSeed()).facts)
	}
	for _, g := range gangs {
		f := gangOf(3, g.change)
		f.Nodes, f.Pods = f.Nodes[:60], append(f.Pods[:100:100], f.Pods[len(f.Pods)-3:]...)
		for i := range 3 { // what runs of the same kind already counts for the rules
			f.Pods[i*30].Labels, f.Pods[i*30].Namespace = map[string]string{"job-name": "gang"}, "team"
		}
		look("gang "+g.name, f)
	}
	if shared < 50 {
		t.Errorf("%d pods shared a class with another, want more", shared)
	}
	a := &corev1.Pod{}
	b := a.DeepCopy()
	b.Labels = map[string]string{"app": "b"}
	if diagnose.Class(a) == diagnose.Class(b) {
		t.Error("pods with other labels are of one class")
	}
}
