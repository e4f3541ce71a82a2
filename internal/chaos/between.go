package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// slack is how long before and after a binding pods come and go that whoever decided on it may have counted otherwise: what is
// decided together is bound one by one, a pod that has just gone was there when it was decided, and one whose node was
// deleted and made again was not.
const slack = 3 * time.Second

// referee judges every binding that it sees by the required rules between pods: those of the pod, and those of the pods
// around it. It follows one watch, in which changes come in the order in which they were made, and judges nothing that was
// bound while it was cut off. It shares no code with the engine.
type referee struct {
	tally *tally
	nodes func() []*corev1.Node

	pods  map[string]*corev1.Pod
	gone  []departed
	cases []*suit
}

// departed is a pod that left its node, or was deleted.
type departed struct {
	pod *corev1.Pod
	at  time.Time
}

// suit is a spread constraint that a binding seems to violate, until it is sure.
type suit struct {
	pod   *corev1.Pod
	c     *corev1.TopologySpreadConstraint
	there []*corev1.Pod // when it was bound, the pod itself not among them
	left  []*corev1.Pod // gone shortly before, or on a node that has just come back
	after []*corev1.Pod // bound since
	ends  time.Time
}

// referees follows the pods until ctx ends.
func referees(ctx context.Context, client kubernetes.Interface, nodes func() []*corev1.Node, t *tally) {
	r := &referee{tally: t, nodes: nodes}
	for ctx.Err() == nil {
		r.follow(ctx, client)
		lasting(ctx, time.Second)
	}
}

// follow lists the pods and watches them until the watch is cut.
func (r *referee) follow(ctx context.Context, client kubernetes.Interface) {
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	r.begin(list.Items)
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return
	}
	defer w.Stop()
	tick := time.NewTicker(slack / 3)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-w.ResultChan():
			p, isPod := e.Object.(*corev1.Pod)
			if !ok || !isPod {
				return
			}
			r.saw(p, e.Type == watch.Deleted, time.Now())
		case now := <-tick.C:
			r.close(now)
		case <-ctx.Done():
			return
		}
	}
}

// begin takes in the pods that there are, and forgets what was. Those that are over have left their nodes.
func (r *referee) begin(pods []corev1.Pod) {
	r.pods, r.gone, r.cases = make(map[string]*corev1.Pod), nil, nil
	for i := range pods {
		if p := &pods[i]; !over(p) {
			r.pods[key(p)] = p
		}
	}
}

// saw takes in a change of a pod.
func (r *referee) saw(p *corev1.Pod, deleted bool, now time.Time) {
	old := r.pods[key(p)]
	if deleted || over(p) {
		if old != nil && old.Spec.NodeName != "" {
			r.gone = append(r.gone, departed{old, now})
		}
		delete(r.pods, key(p))
		return
	}
	r.pods[key(p)] = p
	if p.Spec.NodeName == "" || old == nil || old.Spec.NodeName != "" {
		return
	}
	for _, c := range r.cases {
		c.after = append(c.after, p)
	}
	r.bound(p, now)
}

// on are the pods that are on nodes, without one.
func (r *referee) on(without *corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range r.pods {
		if p.Spec.NodeName != "" && p.UID != without.UID {
			out = append(out, p)
		}
	}
	return out
}

// bound judges a pod that has just got its node.
func (r *referee) bound(p *corev1.Pod, now time.Time) {
	where, came := make(map[string]map[string]string), make(map[string]bool)
	for _, n := range r.nodes() {
		where[n.Name], came[n.Name] = n.Labels, now.Sub(n.CreationTimestamp.Time) < slack+time.Second
	}
	if where[p.Spec.NodeName] == nil {
		return // the node is gone, and so is the pod soon
	}
	there := r.on(p)
	if strict(p) {
		r.tally.count("bindings judged by rules between pods: " + p.Spec.SchedulerName)
	}
	if p.Labels[labelLoud] != "" {
		r.tally.count("bindings judged by the rules of other pods: " + p.Spec.SchedulerName)
	}
	if why := apart(p, there, where); why != "" {
		r.tally.find(finding{"bound beside a pod that it must not be with", key(p), why})
	}
	if why := together(p, there, where); why != "" {
		r.tally.find(finding{"bound without the pods that it must be with", key(p), why})
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || skew(p, c, there, where) <= int(c.MaxSkew) {
			continue
		}
		s := &suit{pod: p, c: c, ends: now.Add(slack)}
		for _, q := range there {
			if came[q.Spec.NodeName] {
				s.left = append(s.left, q)
			} else {
				s.there = append(s.there, q)
			}
		}
		for _, d := range r.gone {
			if now.Sub(d.at) < slack {
				s.left = append(s.left, d.pod)
			}
		}
		r.cases = append(r.cases, s)
	}
}

// close decides the cases whose time is up, and forgets who left long ago.
func (r *referee) close(now time.Time) {
	for len(r.gone) > 0 && now.Sub(r.gone[0].at) > slack {
		r.gone = r.gone[1:]
	}
	where := make(map[string]map[string]string)
	for _, n := range r.nodes() {
		where[n.Name] = n.Labels
	}
	var open []*suit
	for _, c := range r.cases {
		if now.Before(c.ends) {
			open = append(open, c)
			continue
		}
		if least := c.skew(where); least > int(c.c.MaxSkew) {
			r.tally.find(finding{"bound against a spread constraint", key(c.pod), fmt.Sprintf("skew %d over %s, at most %d, on node %s", least, c.c.TopologyKey, c.c.MaxSkew, c.pod.Spec.NodeName)})
		}
	}
	r.cases = open
}

// skew is the least that the binding led to, by whichever of those who came and went at the time were counted.
func (c *suit) skew(where map[string]map[string]string) int {
	least := skew(c.pod, c.c, c.there, where)
	for _, with := range [][]*corev1.Pod{c.after, c.left, append(append([]*corev1.Pod{}, c.after...), c.left...)} {
		least = min(least, skew(c.pod, c.c, append(append([]*corev1.Pod{}, c.there...), with...), where))
	}
	return least
}

// strict says whether the pod has required rules about other pods.
func strict(p *corev1.Pod) bool {
	for i := range p.Spec.TopologySpreadConstraints {
		if p.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	a := p.Spec.Affinity
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

// about says whether a term of one pod is about another. Namespaces are by name here, and a namespace selector selects all.
func about(t *corev1.PodAffinityTerm, of, other *corev1.Pod) bool {
	in := t.NamespaceSelector != nil || len(t.Namespaces) == 0 && of.Namespace == other.Namespace
	for _, name := range t.Namespaces {
		in = in || name == other.Namespace
	}
	return in && selects(t.LabelSelector, other)
}

func selects(s *metav1.LabelSelector, p *corev1.Pod) bool {
	by, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && by.Matches(labels.Set(p.Labels))
}

// sameDomain says whether two nodes have the same value of a label.
func sameDomain(key, a, b string, where map[string]map[string]string) bool {
	va, ok := where[a][key]
	vb, has := where[b][key]
	return ok && has && va == vb
}

// apart says which anti-affinity keeps the pod from its node: its own, or that of a pod there.
func apart(p *corev1.Pod, there []*corev1.Pod, where map[string]map[string]string) string {
	for _, q := range there {
		for _, pair := range [][2]*corev1.Pod{{p, q}, {q, p}} {
			a := pair[0].Spec.Affinity
			if a == nil || a.PodAntiAffinity == nil {
				continue
			}
			for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				t := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
				if about(t, pair[0], pair[1]) && sameDomain(t.TopologyKey, p.Spec.NodeName, q.Spec.NodeName, where) {
					return fmt.Sprintf("the anti-affinity of %s over %s is about %s, on nodes %s and %s", key(pair[0]), t.TopologyKey, key(pair[1]), p.Spec.NodeName, q.Spec.NodeName)
				}
			}
		}
	}
	return ""
}

// together says which affinity of the pod no pod in the domain of its node satisfies. A pod that its own terms are about may
// be the first.
func together(p *corev1.Pod, there []*corev1.Pod, where map[string]map[string]string) string {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return ""
	}
	terms := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	all := func(q *corev1.Pod) bool {
		for i := range terms {
			if !about(&terms[i], p, q) {
				return false
			}
		}
		return true
	}
	var fit []*corev1.Pod
	for _, q := range there {
		if all(q) {
			fit = append(fit, q)
		}
	}
	if len(fit) == 0 && all(p) {
		return ""
	}
	for i := range terms {
		near := false
		for _, q := range fit {
			near = near || sameDomain(terms[i].TopologyKey, p.Spec.NodeName, q.Spec.NodeName, where)
		}
		if !near {
			return fmt.Sprintf("no pod that its affinity is about is in the %s of node %s", terms[i].TopologyKey, p.Spec.NodeName)
		}
	}
	return ""
}

// skew is by how much the domain of the pod's node is above that with the fewest pods, with the pod. Every node that has the
// label counts: the pods of chaos select no nodes.
func skew(p *corev1.Pod, c *corev1.TopologySpreadConstraint, there []*corev1.Pod, where map[string]map[string]string) int {
	counts := make(map[string]int)
	for _, l := range where {
		if v, ok := l[c.TopologyKey]; ok {
			counts[v] += 0
		}
	}
	for _, q := range there {
		if v, ok := where[q.Spec.NodeName][c.TopologyKey]; ok && q.Namespace == p.Namespace && q.DeletionTimestamp == nil && selects(c.LabelSelector, q) {
			counts[v]++
		}
	}
	here := where[p.Spec.NodeName][c.TopologyKey]
	fewest := counts[here]
	for _, n := range counts {
		fewest = min(fewest, n)
	}
	own := 0
	if selects(c.LabelSelector, p) {
		own = 1
	}
	return counts[here] + own - fewest
}
