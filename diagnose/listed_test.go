package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// unlisted are causes that are told of work that is asked about by name, and of which there is no list: it is over, was put to rest by somebody,
// runs beside what is wrong with it, or has no node that it is for, as the agents of a GPU stack often do not.
var unlisted = map[why.Cause]bool{"job-gave-up": true, "scaled-to-zero": true, "running-without-progress": true, "world-size-mismatch": true, "gpu-unhealthy": true}

// What is blocked when it is asked about by name is in the list of everything that waits, itself, by an owner or by its pods; but for what has
// failed, which waits for nothing.
func TestWhatIsBlockedIsListed(t *testing.T) {
	for _, name := range caseNames(t) {
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			c := loadCase(t, name, fixedSeed())
			got := c.diagnose(t)
			if got.Layer == check.None || got.State == facts.Failed || got.State == facts.Succeeded || unlisted[got.Cause] || strings.HasPrefix(c.Target, "daemonset/") && got.State == facts.Absent {
				return
			}
			kind, what, _ := strings.Cut(c.Target, "/")
			kind, err := facts.ParseKind(kind)
			if err != nil {
				t.Fatal(err)
			}
			o, err := c.facts.Find(facts.Ref{Kind: kind, Namespace: c.Namespace, Name: what})
			if err != nil {
				t.Fatal(err)
			}
			if at := o.GetDeletionTimestamp(); at != nil && kind == "Pod" && c.facts.At.Before(at.Time) {
				return // it is on its way out
			}
			listed := diagnose.New(c.facts, cluster.NewModel(cluster.ModelOptions{})).Waiting("")
			for _, x := range append([]facts.Object{o}, objects(c.facts.PodsOf(facts.RefTo(o)))...) {
				for up := x; up != nil; up = c.facts.Controller(up) {
					if slices.ContainsFunc(listed, func(l diagnose.Candidate) bool { return l.Ref == facts.RefTo(up) }) {
						return
					}
				}
			}
			t.Errorf("%s is %s, for %s, and not among %v", c.Target, got.State, got.Cause, listed)
		})
	}
}

func objects(pods []*corev1.Pod) (out []facts.Object) {
	for _, p := range pods {
		out = append(out, p)
	}
	return out
}
