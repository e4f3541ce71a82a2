package l3

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect/kai"
)

var victimsProtectedCheck = check.Check{
	Cause: "victims-protected", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 78,
	Title:   "Nothing may be evicted for it",
	Meaning: "The work has a priority, but what holds its place is protected: by a priority that is as high, by the work's own class, which may not evict, or by a time that others may run undisturbed.",
	Remedy:  "Wait, or use a priority class that is higher, or that may evict others.",
	Not:     "A priority is enough to get a place.",
	Find:    victimsProtected,
}

func victimsProtected(c *check.Case) []check.Finding {
	if !c.Waits() || c.Fit != nil && c.Fit.Placed() {
		return nil
	}
	if message, said := queue.KaiReason(c, "PreemptionDelayNotElapsed"); said {
		found := check.Finding{Message: "KAI may not evict others for it yet: " + strings.TrimSuffix(message, ".")}
		if t, ok := kai.ParseTime(message); ok && t.After(c.Now) {
			found.Until, found.Because = t, "KAI may evict others from then on"
		}
		return []check.Finding{found}
	}
	if found := victimsUnlessNever(c); found != nil {
		return found
	}
	return victimsOutrank(c)
}

// victimsUnlessNever is for a pod whose class may not evict, where evicting pods of lower priority would make room.
func victimsUnlessNever(c *check.Case) []check.Finding {
	if p := c.Pod.Spec.PreemptionPolicy; p == nil || *p != corev1.PreemptNever {
		return nil
	}
	message := fmt.Sprintf("priority class %s may not evict others", c.Pod.Spec.PriorityClassName)
	evidence := []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.preemptionPolicy", Value: "Never"}}
	if c.Fit == nil {
		if said, ok := place.SaidOf(c); ok && strings.Contains(said.Evicting.Barred, "preemptionPolicy=Never") {
			return []check.Finding{{Message: message + ", and what it needs is taken", Evidence: evidence}}
		}
		return nil
	}
	victims := victimsForRoom(c, func(p *corev1.Pod) bool {
		return schedulinghelper.PodPriority(p) < schedulinghelper.PodPriority(c.Pod)
	})
	if len(victims) == 0 {
		return nil
	}
	return []check.Finding{{Fit: true, Message: fmt.Sprintf("%s, and pods of lower priority hold what it needs: %s", message, wording.AtMost(3, victimNames(victims))), Evidence: evidence, Probe: withoutVictims(victims)}}
}

// victimsOutrank is for a pod with a priority class of which all that hold its place have at least the priority.
func victimsOutrank(c *check.Case) []check.Finding {
	mine := schedulinghelper.PodPriority(c.Pod)
	if c.Fit == nil || c.Pod.Spec.PriorityClassName == "" || mine <= 0 {
		return nil
	}
	lower, higher, least := 0, 0, int32(math.MaxInt32)
	for i := range c.Fit.Nodes {
		if n := &c.Fit.Nodes[i]; n.Open() && n.Empty > 0 {
			for _, p := range c.PodsOn(n.Name) {
				theirs := schedulinghelper.PodPriority(p)
				if len(facts.ExtendedOf(p)) == 0 {
					continue
				}
				least = min(least, theirs)
				if theirs < mine {
					lower++
				}
				if theirs > mine {
					higher++
				}
			}
		}
	}
	victims := victimsForRoom(c, func(p *corev1.Pod) bool { return true })
	if lower > 0 || higher == 0 || len(victims) == 0 {
		return nil
	}
	return []check.Finding{{
		Fit: true, Probe: withoutVictims(victims),
		Message:  fmt.Sprintf("its priority, %d, is not above that of any pod that holds its place: the lowest there is %d", mine, least),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.priority", Value: fmt.Sprint(mine)}},
	}}
}

// victimsForRoom are pods that may go, all of one node, without which the pod fits there: the fewest.
func victimsForRoom(c *check.Case, may func(*corev1.Pod) bool) []*corev1.Pod {
	if c.Fit.Cause != why.ClusterFull && c.Fit.Cause != why.Fragmented && c.Fit.Cause != why.Stranded {
		return nil
	}
	var best []*corev1.Pod
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if !n.Open() || n.Empty == 0 {
			continue
		}
		short := make(map[string]int64)
		for _, s := range n.Short {
			short[s.Resource] = s.By
		}
		if set := fewestVictims(c.PodsOn(n.Name), may, short); set != nil && (best == nil || len(set) < len(best)) {
			best = set
		}
	}
	return best
}

// fewestVictims takes pods, those that hold most of what is short first, until nothing is; nil where all are not enough.
func fewestVictims(pods []*corev1.Pod, may func(*corev1.Pod) bool, short map[string]int64) []*corev1.Pod {
	left := make(map[string]int64)
	for k, v := range short {
		left[k] = v
	}
	holds := func(p *corev1.Pod) (sum int64) {
		for name, v := range podspec.Amounts(&p.Spec) {
			if short[name] > 0 {
				sum += v * 1000 / short[name]
			}
		}
		return sum
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		if d := holds(b) - holds(a); d != 0 {
			return int(d)
		}
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	var out []*corev1.Pod
	for _, p := range sorted {
		done := true
		for _, v := range left {
			done = done && v <= 0
		}
		if done {
			break
		}
		if !may(p) || holds(p) == 0 || p.DeletionTimestamp != nil {
			continue
		}
		out = append(out, p)
		for name, v := range podspec.Amounts(&p.Spec) {
			left[name] -= v
		}
	}
	for name := range short {
		if left[name] > 0 {
			return nil
		}
	}
	return out
}

// withoutVictims stands for the pods being gone. It is not advised: whose they are decides that.
func withoutVictims(pods []*corev1.Pod) *edit.Edit {
	e := &edit.Edit{Side: edit.Cluster, Text: "evict " + strings.Join(victimNames(pods), ", ")}
	for _, p := range pods {
		e.Gone = append(e.Gone, p)
	}
	return e
}

func victimNames(pods []*corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return out
}
