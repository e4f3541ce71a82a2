package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Work that is being rolled out has not started when its waiting pods have: every pod of an earlier template is replaced after them, a
// few at a time, and each of those may find a quota used up, or no room, that the first did not. An edit that ends at the next step
// is no fix. So the rest of the rollout is played, as the controllers of Deployments and StatefulSets do it: what waits takes the place
// that was found for it and is ready, old pods go, the next ones are made, and everything is judged anew.

// mostSteps bounds the steps of a rollout that are played. Those after them are taken to go like the last.
const mostSteps = 12

// stalls says whether the target's rollout stops at a later pod, given that nothing is in the way of those that wait now. The model
// is as the facts are, before and after.
func (d *Diagnoser) stalls(f *facts.Facts, target facts.Ref, top facts.Object, j *judgement) bool {
	if d.model == nil || d.late != nil && d.late() {
		return false
	}
	for step := range mostSteps {
		changes := rollOn(f, top, j.places(), step)
		if len(changes) == 0 {
			return false
		}
		before, after := f, f.After(changes)
		move(d.model, after, changes)
		defer move(d.model, before, reversed(changes))
		var err error
		if top, err = after.Find(target); err != nil {
			return false
		}
		if f, j = after, d.judge(after, target, top); !j.free() {
			return true
		}
	}
	return false
}

// reversed are the changes that take changes back.
func reversed(changes []facts.Change) []facts.Change {
	back := make([]facts.Change, len(changes))
	for i, c := range changes {
		back[len(changes)-1-i] = facts.Change{Was: c.Now, Now: c.Was}
	}
	return back
}

// places are the nodes that were found for pods that wait, by namespace and name.
func (j *judgement) places() map[string]string {
	out := make(map[string]string)
	for _, c := range j.cases {
		if c.Fit != nil {
			for _, s := range c.Fit.Starts {
				out[s.Pod] = s.Node
			}
		}
	}
	for _, s := range j.starts { // beside one another
		out[s.Pod] = s.Node
	}
	return out
}

// rollOn is the next step of a rollout; none where it is over, where there is none, or where it is not known how it goes on.
func rollOn(f *facts.Facts, top facts.Object, places map[string]string, step int) []facts.Change {
	r := &rolling{facts: f, places: places, step: step, used: make(map[string]*corev1.ResourceQuota)}
	switch top := top.(type) {
	case *appsv1.Deployment:
		return r.deployment(top)
	case *appsv1.StatefulSet:
		return r.statefulSet(top)
	}
	return nil
}

// rolling collects what one step of a rollout changes.
type rolling struct {
	facts   *facts.Facts
	places  map[string]string
	step    int
	used    map[string]*corev1.ResourceQuota // as counted after the step
	changes []facts.Change
}

// deployment has its newest ReplicaSet grow as far as maxSurge allows, and the earlier ones shrink as far as maxUnavailable does.
func (r *rolling) deployment(d *appsv1.Deployment) []facts.Change {
	if d.Spec.Paused || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	makers := r.facts.PodOwners(d)
	newest, ok := makers[len(makers)-1].(*appsv1.ReplicaSet)
	if !ok {
		return nil
	}
	fresh, ok := r.started(newest)
	old := r.earlier(d, newest)
	if !ok || len(old) == 0 {
		return nil
	}
	replicas := int(ptr.Deref(d.Spec.Replicas, 1))
	up, down := podspec.Rollout(d)
	leave := min(len(old), max(0, fresh+len(old)-(replicas-down)))
	want := min(replicas, replicas+up-(len(old)-leave))
	if want <= fresh {
		return nil
	}
	r.drop(old[:leave])
	grown := newest.DeepCopy()
	grown.Spec.Replicas = ptr.To(int32(want))
	r.changes = append(r.changes, facts.Change{Now: grown})
	return r.counted()
}

// earlier are the pods of a Deployment that it replaces, those that go first, first: what is not ready, then what was made last. Pods
// of a template that is the newest again stay: the controller takes their ReplicaSet for the newest.
func (r *rolling) earlier(d *appsv1.Deployment, newest *appsv1.ReplicaSet) (out []*corev1.Pod) {
	for _, o := range r.facts.Children(d) {
		rs, ok := o.(*appsv1.ReplicaSet)
		if !ok || rs.UID == newest.UID || equality.Semantic.DeepEqual(rs.Spec.Template.Spec, newest.Spec.Template.Spec) {
			continue
		}
		for _, o := range r.facts.Children(rs) {
			if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil && !facts.Ended(p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(readiness(a), readiness(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return out
}

// readiness is 1 for a pod that is ready, else 0.
func readiness(p *corev1.Pod) int {
	if podReady(p) {
		return 1
	}
	return 0
}

// statefulSet has its last pod of an earlier template go, whose name the next one takes.
func (r *rolling) statefulSet(s *appsv1.StatefulSet) []facts.Change {
	u := s.Spec.UpdateStrategy
	if u.Type == appsv1.OnDeleteStatefulSetStrategyType || s.Status.UpdateRevision == "" {
		return nil
	}
	first := 0
	if u.RollingUpdate != nil {
		first = int(ptr.Deref(u.RollingUpdate.Partition, 0))
	}
	have, ok := r.started(s)
	if !ok {
		return nil
	}
	var last *corev1.Pod
	number := -1
	for _, o := range r.facts.Children(s) {
		p, ok := o.(*corev1.Pod)
		if !ok || p.Spec.NodeName == "" || p.Labels[appsv1.ControllerRevisionHashLabelKey] == s.Status.UpdateRevision {
			continue
		}
		if n, err := strconv.Atoi(p.Name[strings.LastIndexByte(p.Name, '-')+1:]); err == nil && n >= first && n > number {
			last, number = p, n
		}
	}
	if last == nil {
		return nil
	}
	r.drop([]*corev1.Pod{last})
	next := s.DeepCopy()
	next.Status.Replicas, next.Status.ReadyReplicas = int32(number), int32(have-1) // facts.PodFrom names the next pod by it
	r.changes = append(r.changes, facts.Change{Now: next})
	return r.counted()
}

// started gives the waiting pods of a maker, and those that it has not made yet, the places that were found for them. It returns how
// many pods the maker has then; false where a pod has no place.
func (r *rolling) started(m facts.Object) (int, bool) {
	n := 0
	for _, o := range r.facts.Children(m) {
		p, ok := o.(*corev1.Pod)
		if !ok || p.DeletionTimestamp != nil || facts.Ended(p) {
			continue
		}
		n++
		if p.Spec.NodeName == "" && !r.start(p.DeepCopy()) {
			return 0, false
		}
	}
	for i := range r.facts.MissingPods(m) {
		p := r.facts.PodFrom(m, i)
		if p == nil {
			return 0, false
		}
		r.facts.Admit(p)
		if !r.start(p) {
			return 0, false
		}
		n++
	}
	return n, true
}

// start has the pod run where a place was found. One that does not exist yet is made, and counted by quotas.
func (r *rolling) start(p *corev1.Pod) bool {
	node := r.places[p.Namespace+"/"+p.Name]
	if node == "" {
		return false
	}
	if p.UID == "" {
		r.count(p, true)
		if !ordinal(p) {
			p.Name = fmt.Sprintf("%s-step-%d", p.Name, r.step) // the next one to come is called the same
		}
		p.UID = types.UID(fmt.Sprintf("rollout-%s-%d", p.Name, r.step))
		p.CreationTimestamp = metav1.NewTime(r.facts.At)
	}
	if s, ok := r.facts.Controller(p).(*appsv1.StatefulSet); ok {
		if p.Labels == nil {
			p.Labels = make(map[string]string)
		}
		p.Labels[appsv1.ControllerRevisionHashLabelKey] = s.Status.UpdateRevision
	}
	p.Spec.NodeName = node
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	r.changes = append(r.changes, facts.Change{Now: p})
	return true
}

// ordinal says whether the pod's name is its place in a StatefulSet.
func ordinal(p *corev1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "StatefulSet"
}

// drop has pods go.
func (r *rolling) drop(pods []*corev1.Pod) {
	less := make(map[types.UID]int32)
	var makers []*appsv1.ReplicaSet
	for _, p := range pods {
		r.count(p, false)
		r.changes = append(r.changes, facts.Change{Was: p})
		if rs, ok := r.facts.Controller(p).(*appsv1.ReplicaSet); ok {
			if less[rs.UID] == 0 {
				makers = append(makers, rs)
			}
			less[rs.UID]++
		}
	}
	for _, rs := range makers {
		n := rs.DeepCopy()
		n.Spec.Replicas = ptr.To(max(0, ptr.Deref(rs.Spec.Replicas, 1)-less[rs.UID]))
		r.changes = append(r.changes, facts.Change{Now: n})
	}
}

// count has the quotas of the pod's namespace count it, or count it no more.
func (r *rolling) count(p *corev1.Pod, more bool) {
	for _, q := range r.facts.ResourceQuotas {
		if q.Namespace != p.Namespace || !podspec.InScopes(q, p) {
			continue
		}
		if r.used[q.Name] == nil {
			r.used[q.Name] = q.DeepCopy()
		}
		used := r.used[q.Name].Status.Used
		for _, name := range podspec.Names(used) {
			sum, one := used[name], counted(p, name)
			if more {
				sum.Add(one)
			} else {
				sum.Sub(one)
			}
			used[name] = sum
		}
	}
}

// counted are the changes, with the quotas.
func (r *rolling) counted() []facts.Change {
	for _, q := range r.facts.ResourceQuotas {
		if n := r.used[q.Name]; n != nil && n.Namespace == q.Namespace {
			r.changes = append(r.changes, facts.Change{Now: n})
		}
	}
	return r.changes
}
