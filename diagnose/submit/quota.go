package submit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// quotas are what the namespaces of the manifests, and the queues that they are charged to, have left.
func (c *checker) quotas() []Quota {
	asks := make(map[string][]*corev1.Pod) // by namespace
	charged := make(map[string]corev1.ResourceList)
	for _, s := range c.subs {
		if s.result.Verdict == Never {
			continue
		}
		for _, p := range s.pods {
			asks[p.Namespace] = append(asks[p.Namespace], p)
			if t := s.result.Terms; t != nil && t.Queue != "" {
				charged[t.Queue] = added(charged[t.Queue], podspec.TotalRequests(p))
			}
		}
		if _, ok := asks[s.Ref.Namespace]; !ok {
			asks[s.Ref.Namespace] = nil
		}
	}
	var out []Quota
	for _, q := range c.now.ResourceQuotas {
		if want, ok := asks[q.Namespace]; ok {
			out = append(out, ofNamespace(q, want)...)
		}
	}
	for name, want := range charged {
		if q, ok := c.full.model.Queue(name); ok {
			out = append(out, ofQueue(&q, want)...)
		}
	}
	slices.SortFunc(out, func(a, b Quota) int {
		return cmp.Or(strings.Compare(a.Of.Namespace, b.Of.Namespace), strings.Compare(a.Of.Name, b.Of.Name), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

func added(sum, more corev1.ResourceList) corev1.ResourceList {
	if sum == nil {
		sum = corev1.ResourceList{}
	}
	podspec.Add(sum, more)
	return sum
}

// ofNamespace is what a ResourceQuota has left, and what the pods ask of it.
func ofNamespace(q *corev1.ResourceQuota, pods []*corev1.Pod) []Quota {
	var out []Quota
	hard := q.Status.Hard
	if len(hard) == 0 {
		hard = q.Spec.Hard
	}
	for _, key := range podspec.Names(hard) {
		limit, used := hard[key], q.Status.Used[key]
		var want resource.Quantity
		for _, p := range pods {
			if ask, counted := podspec.QuotaAsk(p, string(key)); counted && podspec.InScopes(q, p) {
				want.Add(ask)
			}
		}
		left := limit.DeepCopy()
		left.Sub(used)
		out = append(out, Quota{Of: facts.RefTo(q), Resource: string(key), Hard: limit.String(), Used: used.String(), Asked: want.String(), Left: left.String()})
	}
	return out
}

// ofQueue is what a queue has left of its own quota; it may borrow beyond that.
func ofQueue(q *engine.QueueUse, asked corev1.ResourceList) []Quota {
	var out []Quota
	for _, a := range q.Quota {
		if _, _, ok := engine.FlavorOf(a.Resource); ok { // which one it gets is not known before it starts
			continue
		}
		want := asked[corev1.ResourceName(a.Resource)]
		used := q.Used.Get(a.Resource)
		out = append(out, Quota{
			Of: facts.Ref{Kind: "BerthQueue", Name: q.Name}, Resource: a.Resource, Hard: text(a.Resource, a.Value), Used: text(a.Resource, used),
			Asked: want.String(), Left: text(a.Resource, a.Value-used),
		})
	}
	return out
}

// text is an amount of the engine as people write it.
func text(name string, v int64) string {
	q := podspec.Quantity(name, v)
	return q.String()
}

// refusal is why a ResourceQuota does not let a pod in.
type refusal struct {
	quota            *corev1.ResourceQuota
	key              corev1.ResourceName
	hard, used, asks resource.Quantity // used: with the pods before it
}

func (r *refusal) String() string {
	return fmt.Sprintf("quota %s allows %s %s, of which %s are used", r.quota.Name, &r.hard, r.key, &r.used)
}

// overQuota are the pods, of those to come one after the other, that the quotas of their namespaces do not let in, and why, by key.
func overQuota(quotas []*corev1.ResourceQuota, pods []*corev1.Pod) map[string]*refusal {
	out := make(map[string]*refusal)
	for _, q := range quotas {
		if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Namespace == q.Namespace }) {
			continue
		}
		used := q.Status.Used.DeepCopy()
		if used == nil {
			used = corev1.ResourceList{}
		}
		for _, p := range pods {
			if p.Namespace != q.Namespace || out[keyOf(p)] != nil || !podspec.InScopes(q, p) {
				continue
			}
			next := used.DeepCopy()
			for _, key := range podspec.Names(q.Spec.Hard) {
				ask, counted := podspec.QuotaAsk(p, string(key))
				if !counted || ask.IsZero() {
					continue
				}
				sum, hard := used[key].DeepCopy(), q.Spec.Hard[key]
				sum.Add(ask)
				if next[key] = sum; sum.Cmp(hard) > 0 && out[keyOf(p)] == nil {
					out[keyOf(p)] = &refusal{quota: q, key: key, hard: hard, used: used[key], asks: ask}
				}
			}
			if out[keyOf(p)] == nil {
				used = next
			}
		}
	}
	return out
}

// overOf is why quotas do not let the first of the workload's pods in that they do not; nil: they let all in.
func (s *submission) overOf(over map[string]*refusal) *refusal {
	for _, p := range s.pods {
		if r := over[keyOf(p)]; r != nil {
			return r
		}
	}
	return nil
}

// letIn is how many of the workload's pods quotas let in.
func (s *submission) letIn(over map[string]*refusal) (n int) {
	for _, p := range s.pods {
		if over[keyOf(p)] == nil {
			n++
		}
	}
	return n
}

// heldGangs are the gangs of which quotas let fewer pods in than start together: none of them starts then.
func (c *checker) heldGangs(pods []*corev1.Pod, over map[string]*refusal) map[string]bool {
	needs, in := make(map[string]int), make(map[string]int)
	for _, p := range pods {
		gang := c.now.GangOf(p)
		if gang == "" {
			continue
		}
		if needs[gang]++; over[keyOf(p)] == nil {
			in[gang]++
		}
	}
	out := make(map[string]bool)
	for _, p := range pods {
		gang := c.now.GangOf(p)
		need := needs[gang]
		if value, _ := c.now.Inherited(p, v1alpha1.KeyMin); value != "" {
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				need = min(need, n)
			}
		}
		if g := c.now.GangGroup(p); g != nil && g.Spec.SchedulingPolicy.Gang != nil {
			need = min(need, int(g.Spec.SchedulingPolicy.Gang.MinCount))
		}
		if gang != "" && in[gang] < need {
			out[gang] = true
		}
	}
	return out
}

// quotaHolds says whether quotas do not let enough of the workload's pods in, and nothing else is in the way of those that they do. Without
// other work as well, it never starts.
func (c *checker) quotaHolds(s *submission) bool {
	r := s.overOf(c.over)
	if r == nil {
		return false
	}
	c.emptyCluster()
	alone := overQuota(c.alone.facts.ResourceQuotas, s.pods)
	of := &s.result
	if first := s.overOf(alone); first != nil && (len(c.heldGangs(s.pods, alone)) > 0 || !c.suffices(s, s.letIn(alone))) {
		of.Verdict, of.Nodes = Never, nil
		of.Summary = fmt.Sprintf("quota %s of namespace %s allows %s %s, and its %s ask for %s each", first.quota.Name, first.quota.Namespace, &first.hard, first.key, wording.Pods(len(s.pods)), &first.asks)
		of.Fixes = c.moreQuota(s)
	} else if s.placed < s.letIn(c.over) && !slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }) {
		return false // for room, too
	} else {
		of.Verdict = Waits
		if of.Summary = r.String(); s.placed > 0 {
			of.Summary = fmt.Sprintf("%d of %d pods start now; for the others: %s", s.placed, of.Pods, r)
		} else {
			of.Nodes = nil
		}
	}
	of.Cause, of.Layer, of.Owner, of.Part, of.ETA = quotaExceeded, check.L3, check.Scheduler, "", nil
	return true
}

// quotaExceeded is the cause that diagnose has for it too.
const quotaExceeded why.Cause = "quota-exceeded"

// moreQuota raises every quota that does not let all of the workload's pods in to what they ask for together, and tries it.
func (c *checker) moreQuota(s *submission) []Fix {
	f := Fix{Side: edit.Cluster, Then: Waits, Outcome: fmt.Sprintf("the quota lets all of its %s in", wording.Pods(len(s.pods)))}
	var texts, commands []string
	var after []*corev1.ResourceQuota
	for _, q := range c.alone.facts.ResourceQuotas {
		hard := q.DeepCopy()
		var patch []string
		for _, key := range podspec.Names(q.Spec.Hard) {
			var sum resource.Quantity
			for _, p := range s.pods {
				if ask, counted := podspec.QuotaAsk(p, string(key)); counted && p.Namespace == q.Namespace && podspec.InScopes(q, p) {
					sum.Add(ask)
				}
			}
			if was := q.Spec.Hard[key]; sum.Cmp(was) > 0 {
				hard.Spec.Hard[key] = sum
				texts = append(texts, fmt.Sprintf("raise %s of quota %s from %s to %s", key, q.Name, &was, &sum))
				patch = append(patch, fmt.Sprintf("%q:%q", key, sum.String()))
			}
		}
		if after = append(after, hard); len(patch) > 0 {
			commands = append(commands, fmt.Sprintf("kubectl patch resourcequota %s -n %s -p '{\"spec\":{\"hard\":{%s}}}'", q.Name, q.Namespace, strings.Join(patch, ",")))
		}
	}
	if len(overQuota(after, s.pods)) > 0 {
		return nil
	}
	f.Verified, f.Edit, f.Command = true, strings.Join(texts, "; and "), strings.Join(commands, "\n")
	return []Fix{f}
}
