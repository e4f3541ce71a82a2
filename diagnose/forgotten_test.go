package diagnose_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// What says why work waits does not last: API servers keep events for an hour, and not every release of a controller writes messages.
// The work waits all the same. Each forgets something of the facts, and says whether there was anything to forget.
var forgets = []struct {
	what string
	do   func(*facts.Facts, *rand.Rand) bool
}{
	{"all events", func(f *facts.Facts, _ *rand.Rand) bool {
		had := len(f.Events) > 0
		f.Events = nil
		return had
	}},
	{"an event", func(f *facts.Facts, r *rand.Rand) bool {
		if len(f.Events) < 2 {
			return false
		}
		i := r.IntN(len(f.Events))
		f.Events = slices.Delete(slices.Clone(f.Events), i, i+1)
		return true
	}},
	{"the texts of events", func(f *facts.Facts, _ *rand.Rand) bool {
		for _, e := range f.Events {
			e.Message = ""
		}
		return len(f.Events) > 0
	}},
	{"the texts of pods", func(f *facts.Facts, _ *rand.Rand) bool {
		for _, p := range f.Pods {
			p.Status.Message = ""
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].Message = ""
			}
			for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
				for i := range list {
					for _, s := range []*corev1.ContainerState{&list[i].State, &list[i].LastTerminationState} {
						if s.Waiting != nil {
							s.Waiting.Message = ""
						}
						if s.Terminated != nil {
							s.Terminated.Message = ""
						}
					}
				}
			}
		}
		return len(f.Pods) > 0
	}},
	{"the texts of all other objects", func(f *facts.Facts, _ *rand.Rand) bool {
		for _, all := range f.Foreign {
			for _, u := range all {
				wordless(u.Object["status"])
			}
		}
		for _, n := range f.Nodes {
			for i := range n.Status.Conditions {
				n.Status.Conditions[i].Message = ""
			}
		}
		for _, j := range f.Jobs {
			for i := range j.Status.Conditions {
				j.Status.Conditions[i].Message = ""
			}
		}
		return true
	}},
	{"all logs", func(f *facts.Facts, _ *rand.Rand) bool {
		had := len(f.Logs) > 0
		f.Logs = map[string]string{}
		return had
	}},
	{"when events were", func(f *facts.Facts, r *rand.Rand) bool {
		for _, e := range f.Events {
			e.FirstTimestamp, e.LastTimestamp, e.EventTime = metav1.Time{}, metav1.Time{}, metav1.MicroTime{}
		}
		return len(f.Events) > 0
	}},
}

// wordless empties every message in the tree.
func wordless(at any) {
	switch at := at.(type) {
	case []any:
		for _, v := range at {
			wordless(v)
		}
	case map[string]any:
		for k, v := range at {
			if _, ok := v.(string); ok && k == "message" {
				at[k] = ""
				continue
			}
			wordless(v)
		}
	}
}

// TestNothingForgottenIsAnAllClear forgets the events of every case, and texts or logs: with them the cause may be lost, and must not become
// an all-clear while the pod still waits. A third of the cases is drawn: all of them take a minute.
func TestNothingForgottenIsAnAllClear(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of diagnoses")
	}
	drawn := cmp.Or(*seed, uint64(time.Now().UnixNano()))
	fmt.Printf("diagnosis of what is forgotten, seed %d\n", drawn)
	for i, name := range caseNames(t) {
		if uint64(i)%3 != drawn%3 {
			continue
		}
		if first := loadCase(t, name, drawn); !first.stopped() || foretold(name) {
			continue
		}
		r := rand.New(rand.NewPCG(drawn, uint64(i)))
		for _, k := range []int{0, 1 + r.IntN(len(forgets)-1)} { // events are gone soonest; of the rest one is drawn, as each costs a diagnosis
			forget := forgets[k]
			c := loadCase(t, name, drawn)
			if !forget.do(c.facts, r) {
				continue
			}
			got := c.diagnose(t)
			if got.Cause == "scaled-to-zero" {
				continue // nobody remembers who scaled it, and no pod waits
			}
			if forget.what == "an event" && got.Cause == "node-coming" && strings.HasPrefix(name, "node-coming/") {
				continue // the machine was asked for a moment ago, and that it will not come is said in an event alone
			}
			if got.Cause == diagnose.Healthy || got.Layer == check.None && got.Cause != diagnose.Unknown {
				t.Errorf("%s without %s: %s %s: %s", name, forget.what, got.Layer, got.Cause, got.Summary)
			}
		}
	}
}
