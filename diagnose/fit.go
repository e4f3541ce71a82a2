package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Model is the scheduler's reading of objects and the engine behind it: kube/scheduler has it. What-ifs are tried by
// changing objects in it and changing them back.
type Model interface {
	Set(objects ...metav1.Object)
	Delete(objects ...metav1.Object)
	// Try says what the engine would do with the workload of the pod (namespace/name) if it were first in line, and
	// what is missing of the pod's claims.
	Try(pod string, now time.Time) (e why.Explanation, starts []engine.Placement, missing []string)
	// PerNode is why the pod, alone, would or would not fit on each node: a domain is a node.
	PerNode(pod string, now time.Time) (why.Certificate, bool)
	// Allow restricts the pod to the nodes; nil: all.
	Allow(pod string, nodes []string)
}

// session is the model with one target's waiting pods in it.
type session struct {
	model      Model
	facts      *facts.Facts
	waiting    []*corev1.Pod                // in the model
	claims     []metav1.Object              // of pods to come, in the model
	nominated  []*corev1.Pod                // others for whom a scheduler keeps a place, in the model as if they had it
	opened     []*corev1.Node               // that Berth gives no GPUs of, in the model as other schedulers see them
	exclusions map[string][]check.Exclusion // by pod
	alike      map[string]restriction       // by what pods look like: see class
}

// restriction is what rules between pods come to for a pod: members of a gang are alike, and a cluster is searched once for all.
type restriction struct {
	exclusions []check.Exclusion
	allowed    []string // nodes
}

// enter puts the target's waiting pods into the model: those that exist, those to come, and those of the same gang.
func (d *Diagnoser) enter(f *facts.Facts, top facts.Object) *session {
	s := &session{model: d.model, facts: f, exclusions: make(map[string][]check.Exclusion)}
	if d.model == nil {
		return s
	}
	seen := make(map[string]bool)
	add := func(p *corev1.Pod) {
		if key := p.Namespace + "/" + p.Name; !seen[key] {
			seen[key] = true
			s.waiting = append(s.waiting, p)
		}
	}
	gangs := make(map[string]bool)
	for _, p := range f.PodsMadeBy(top) {
		if facts.StateOf(p) == facts.Pending && p.DeletionTimestamp == nil {
			add(p)
			gangs[f.GangOf(p)] = true
		}
	}
	for _, m := range f.PodOwners(top) {
		for i := range f.MissingPods(m) {
			p := f.PodFrom(m, i)
			if p == nil || i >= d.alike && f.GangOf(p) == "" {
				break
			}
			f.Admit(p)
			add(p)
			gangs[f.GangOf(p)] = true
		}
	}
	delete(gangs, "")
	for _, p := range f.Pods {
		if len(gangs) > 0 && facts.StateOf(p) == facts.Pending && p.DeletionTimestamp == nil && gangs[f.GangOf(p)] {
			add(p)
		}
	}
	for _, gang := range slices.Sorted(maps.Keys(gangs)) {
		for _, m := range f.GangOwners(gang) {
			for i := range f.MissingPods(m) {
				p := f.PodFrom(m, i)
				f.Admit(p)
				add(p)
			}
		}
	}
	s.openBroken()
	for _, p := range s.waiting {
		s.claims = append(s.claims, claimsToCome(f, p)...)
	}
	s.model.Set(s.claims...)
	for _, p := range s.waiting {
		s.model.Set(p)
	}
	s.keepNominated(seen)
	s.alike = make(map[string]restriction)
	for _, p := range s.waiting {
		s.restrict(p)
	}
	s.alike = nil // pods are put on nodes from now on
	return s
}

// openBroken gives the pods nodes with GPUs that DCGM shows to be broken and that are still advertised, where schedulers look for a place
// for them that do not heed it: Berth alone keeps its pods from those.
func (s *session) openBroken() {
	if len(s.waiting) == 0 || slices.ContainsFunc(s.waiting, s.facts.Ours) {
		return
	}
	for _, n := range s.facts.Nodes {
		if n.Annotations[v1alpha1.KeyUnhealthyGPUs] == "" {
			continue
		}
		open := n.DeepCopy()
		delete(open.Annotations, v1alpha1.KeyUnhealthyGPUs)
		s.opened = append(s.opened, n)
		s.model.Set(place.Offered(s.facts, open))
	}
}

// keepNominated puts pods that wait, and for which their scheduler keeps a place, onto that node: the target's pods do not get it
// before them. own are those that are in the model already.
func (s *session) keepNominated(own map[string]bool) {
	for _, p := range s.facts.Pods {
		if p.Status.NominatedNodeName == "" || p.Spec.NodeName != "" || p.DeletionTimestamp != nil || facts.Ended(p) || own[p.Namespace+"/"+p.Name] || s.facts.NodeNamed(p.Status.NominatedNodeName) == nil {
			continue
		}
		if !slices.ContainsFunc(s.waiting, func(w *corev1.Pod) bool {
			return w.Spec.SchedulerName == p.Spec.SchedulerName && ptr.Deref(w.Spec.Priority, 0) <= ptr.Deref(p.Spec.Priority, 0)
		}) {
			continue
		}
		q := p.DeepCopy()
		q.Spec.NodeName = p.Status.NominatedNodeName
		s.nominated = append(s.nominated, q)
		s.model.Set(q)
	}
}

// claimsToCome are the ephemeral claims that will be made once the pod exists.
func claimsToCome(f *facts.Facts, p *corev1.Pod) []metav1.Object {
	if p.UID != "" {
		return nil
	}
	var out []metav1.Object
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		out = append(out, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + "-" + v.Name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true),
			}}},
			Spec: v.Ephemeral.VolumeClaimTemplate.Spec,
		})
	}
	return out
}

// mostTogether bounds the pods of one target that are placed one after the other.
const mostTogether = 256

// together places all waiting pods, one workload after the other, each beside those before it: where each has a place
// by itself, they need not all have one. It returns where they go and how many go nowhere. Those beyond mostTogether
// count as if they fitted like the others.
func (s *session) together(now time.Time) (starts []engine.Placement, left int) {
	f := s.facts
	var placed []*corev1.Pod
	done := make(map[string]bool) // pods, and gangs of which the members above the minimum may wait
	for i, p := range s.waiting {
		key := p.Namespace + "/" + p.Name
		if i >= mostTogether {
			break
		}
		if gang := f.GangOf(p); done[key] || len(p.Spec.SchedulingGates) > 0 || gang != "" && done[gang] {
			continue
		}
		if len(placed) > 0 && minds(p) {
			s.facts = f.Beside(placed)
			s.restrict(p)
		}
		e, where, missing := s.model.Try(key, now)
		if e.Verdict != why.Placed || len(missing) > 0 {
			left++
			continue
		}
		for _, w := range where {
			if q := s.take(w); q != nil {
				placed, done[w.Pod] = append(placed, q), true
			}
		}
		starts = append(starts, where...)
		done[f.GangOf(p)] = true
	}
	s.facts = f
	for _, p := range s.waiting {
		s.model.Set(p)
	}
	return starts, left
}

// minds says whether where the pod may be depends on where others are.
func minds(p *corev1.Pod) bool {
	a := p.Spec.Affinity
	return len(p.Spec.TopologySpreadConstraints) > 0 || len(p.Spec.ResourceClaims) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// take puts a waiting pod on its node, in the model.
func (s *session) take(w engine.Placement) *corev1.Pod {
	i := slices.IndexFunc(s.waiting, func(p *corev1.Pod) bool { return p.Namespace+"/"+p.Name == w.Pod })
	if i < 0 {
		return nil
	}
	q := s.waiting[i].DeepCopy()
	q.Spec.NodeName = w.Node
	s.model.Set(q)
	return q
}

// restrict keeps the pod from nodes that rules between pods, or claims of devices, exclude.
func (s *session) restrict(p *corev1.Pod) {
	r := s.restriction(p)
	s.exclusions[p.Namespace+"/"+p.Name] = r.exclusions
	if len(r.exclusions) > 0 {
		s.model.Allow(p.Namespace+"/"+p.Name, r.allowed)
	}
}

// restriction looks it up for pods that are alike, until pods are put on nodes.
func (s *session) restriction(p *corev1.Pod) restriction {
	key := class(p)
	if r, ok := s.alike[key]; ok && key != "" {
		return r
	}
	r := restriction{exclusions: place.Exclusions(s.facts, p), allowed: []string{}}
	if len(r.exclusions) > 0 {
		excluded := place.ReasonsByNode(r.exclusions)
		for _, n := range s.facts.Nodes {
			if excluded[n.Name] == nil {
				r.allowed = append(r.allowed, n.Name)
			}
		}
		slices.Sort(r.allowed)
	}
	if key != "" && s.alike != nil {
		s.alike[key] = r
	}
	return r
}

// class is the same for pods that rules between pods, and claims, restrict alike; "" where a pod has claims of its own.
func class(p *corev1.Pod) string {
	if len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil }) {
		return ""
	}
	spec := p.Spec.DeepCopy()
	spec.Hostname, spec.Subdomain = "", ""
	b, err := spec.Marshal()
	if err != nil {
		return ""
	}
	labels := p.DeepCopy().Labels
	for _, own := range ownLabels { // of which one pod differs from the next, and which no rule names
		if !strings.Contains(string(b), own) {
			delete(labels, own)
		}
	}
	return fmt.Sprint(p.Namespace, "\x00", labels, "\x00", string(b)) // fmt sorts the keys
}

// ownLabels number the pods of one maker.
var ownLabels = []string{batchv1.JobCompletionIndexAnnotation, appsv1.PodIndexLabel, appsv1.StatefulSetPodNameLabel}

// leave takes the pods out again.
func (s *session) leave() {
	for _, p := range s.waiting {
		s.model.Delete(p)
	}
	for _, p := range s.nominated {
		s.model.Delete(p)
	}
	if s.model != nil {
		s.model.Delete(s.claims...)
		for _, n := range s.opened {
			s.model.Set(place.Offered(s.facts, n))
		}
	}
}

// fit asks the engine about the pod of the case.
func (s *session) fit(c *check.Case) *check.Fit {
	key := c.Pod.Namespace + "/" + c.Pod.Name
	if s.model == nil || !c.Waits() || !slices.ContainsFunc(s.waiting, func(p *corev1.Pod) bool { return p.Namespace+"/"+p.Name == key }) {
		return nil
	}
	f := &check.Fit{Exclusions: s.exclusions[key], Nominated: s.nominated}
	excluded := place.ReasonsByNode(f.Exclusions)
	f.Explanation, f.Starts, f.Missing = s.model.Try(key, c.Now)
	overrule(f, c)
	if f.Cause != why.InvalidObject && len(convert.AboveLimits(c.Pod)) > 0 {
		return nil // it was asked of a pod without terms, which another scheduler heeds
	}
	if f.Cause == why.QueueMissing && !c.Sees("berthqueues.berth.dev", "") {
		return nil // it was not given the queues
	}
	table, _ := s.model.PerNode(key, c.Now)
	for _, d := range table.Domains {
		n := c.NodeNamed(d.Name)
		if n == nil || len(d.Rows) == 0 {
			continue
		}
		row := d.Rows[0]
		removed := slices.DeleteFunc(slices.Clone(row.Removed), func(c why.Clause) bool {
			switch c.Kind { // ExcludedBy says it better
			case why.ByNodeSet, why.ByPodAffinity, why.ByPodAntiAffinity, why.ByOthersAntiAffinity, why.BySpread:
				return excluded[n.Name] != nil
			}
			return false
		})
		f.Nodes = append(f.Nodes, check.NodeFit{Node: n, Fits: row.Fits, Removed: removed, Short: row.Short, Empty: table.Classes[row.Class].PerEmpty, ExcludedBy: excluded[n.Name]})
	}
	slices.SortFunc(f.Nodes, func(a, b check.NodeFit) int { return strings.Compare(a.Name, b.Name) })
	return f
}
