package signs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// condition is a condition of an object as a sign.
func condition(c *check.Case, o facts.Object, k facts.Condition) Sign {
	s := whose(c, o, k.Type, k.Reason, k.Message)
	if _, pod := o.(*corev1.Pod); pod && k.Type == string(corev1.PodResizePending) { // it runs, with what it had
		s.Layer, s.Owner, s.Advice = check.L3, check.User, "Ask for what its node can give, or make the pod anew, so that it may go to another node."
		if k.Reason == corev1.PodReasonDeferred {
			s.Owner, s.Advice = check.Scheduler, "Wait until other work of the node ends, or ask for less."
		}
	}
	s.Evidence = facts.Evidence{Object: facts.RefTo(o).In(), Field: k.Field, Value: strings.TrimSpace(fmt.Sprintf("%s %s: %s", k.Status, k.Reason, wording.Shortened(k.Message, 200))) + aged(c, k.Since)}
	s.Since = k.Since
	s.What = fmt.Sprintf("%s reports %s=%s%s%s", facts.RefTo(o), k.Type, k.Status, saying(k.Reason, k.Message), aged(c, k.Since))
	if strings.HasPrefix(k.Field, "status.") && !strings.Contains(k.Field, "[") {
		s.What = fmt.Sprintf("%s reports %s%s", facts.RefTo(o), k.Type, saying(k.Reason, k.Message))
		if _, word, ok := strings.Cut(k.Type, " "); ok { // the status in a word
			s.Value = word + saying(k.Reason, wording.Shortened(k.Message, 200)) + aged(c, k.Since)
		}
	}
	return s
}

// event is a warning about an object as a sign.
func event(c *check.Case, o facts.Object, e *corev1.Event) Sign {
	s := whose(c, o, facts.Emitter(e), e.Reason, e.Message)
	s.Evidence, s.Since = life.Shown(e), facts.EventTime(e)
	by := ""
	if from := facts.Emitter(e); from != "" {
		by = from + " "
	}
	s.What = fmt.Sprintf("%swarns of %s%s%s", by, facts.RefTo(o), saying(e.Reason, e.Message), ago(c, s.Since))
	if by == "" {
		s.What = fmt.Sprintf("an event warns of %s%s%s", facts.RefTo(o), saying(e.Reason, e.Message), ago(c, s.Since))
	}
	return s
}

// whose places a report: by the API group of the object or, for Kubernetes' own objects, by the domain in the condition's
// type or by who wrote the event; where nothing tells, by how far the pod has come.
func whose(c *check.Case, o facts.Object, by, reason, message string) Sign {
	s := Sign{Layer: check.L3, Owner: check.Platform, Stage: check.Admit}
	switch c.State {
	case facts.Starting:
		s.Layer, s.Stage = check.L4, check.Start
	case facts.Running, facts.Failed, facts.Succeeded:
		s.Layer, s.Owner, s.Stage = check.L4, check.ML, check.Run
	}
	group, kind := "", ""
	if u, ok := o.(*unstructured.Unstructured); ok {
		group, kind = u.GroupVersionKind().Group, u.GetKind()
	} else {
		group, _, _ = strings.Cut(by, "/")
		kind = by
	}
	if at := placeOf(group, kind, reason, message); at.layer != "" {
		s.Layer, s.Owner = at.layer, at.owner
		if at.layer == check.L3 && at.owner == check.Storage && !c.Waits() {
			s.Layer = check.L4
		}
	}
	s.Advice = fmt.Sprintf("Look at %s and at the controller that reports it.", facts.RefTo(o))
	return s
}

// mostRelated bounds the objects that are followed for one case.
const mostRelated = 200

// related are faults that controllers report of objects which the pod needs or which name it, whatever their kind.
func related(c *check.Case) []Sign {
	if facts.Ended(c.Pod) {
		return nil
	}
	ailing := facts.Derive(c.Facts, ailingOf)
	if len(ailing.objects) == 0 {
		return nil
	}
	var out []Sign
	for _, r := range reach(c, ailing) {
		known := !r.unknown
		for _, s := range reports(c, r.Object) {
			s.Stands = !known && !spectators.MatchString(r.Object.GetObjectKind().GroupVersionKind().Kind) && c.State != facts.Running
			if spectators.MatchString(r.Object.GetObjectKind().GroupVersionKind().Kind) || c.State == facts.Running {
				continue
			}
			s.Young = s.Young || c.Exists && c.Age() < life.Patience && c.Waits()
			out = append(out, s)
		}
	}
	return out
}

// reports are the faults that are reported of one object: its conditions, else its warnings.
func reports(c *check.Case, o facts.Object) []Sign {
	if c.WasEdited(o) {
		return nil
	}
	var out []Sign
	for _, k := range facts.ConditionsOf(o) {
		if k.Bad() {
			out = append(out, condition(c, o, k))
		}
	}
	if len(out) == 0 {
		for _, e := range warnings(c.Facts, o) {
			out = append(out, event(c, o, e))
			break
		}
	}
	return out
}

// warnings are the Warning events about the object, newest first.
func warnings(f *facts.Facts, o facts.Object) []*corev1.Event {
	r := facts.RefTo(o)
	return slices.DeleteFunc(slices.Clone(f.EventsNamed(r.Kind, r.Namespace, r.Name)), func(e *corev1.Event) bool {
		return e.Type != corev1.EventTypeWarning || e.InvolvedObject.UID != "" && e.InvolvedObject.UID != o.GetUID() || f.At.Sub(facts.EventTime(e)) > time.Hour
	})
}

// ailing are the objects of other projects' kinds that report a fault.
type ailing struct {
	objects []*unstructured.Unstructured
	names   map[string][]*unstructured.Unstructured // all objects of other projects' kinds, by name
}

func ailingOf(f *facts.Facts) *ailing {
	a := &ailing{names: make(map[string][]*unstructured.Unstructured)}
	var kinds []string
	for k := range f.Foreign {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		for _, u := range f.Foreign[k] {
			a.names[u.GetName()] = append(a.names[u.GetName()], u)
			if u.GetDeletionTimestamp() == nil && (slices.ContainsFunc(facts.ConditionsOf(u), facts.Condition.Bad) || len(warnings(f, u)) > 0) {
				a.objects = append(a.objects, u)
			}
		}
	}
	return a
}

// relative is an object in the pod's chain.
type relative struct {
	facts.Object
	unknown bool // no check knows its kind
}

// reach are the ailing objects in the case's chain: owned by it or by its owners, named by it, naming it, or one step from
// such an object by a name in its spec.
func reach(c *check.Case, a *ailing) []relative {
	me := selfOf(c)
	var out []relative
	seen := make(map[*unstructured.Unstructured]bool)
	var frontier []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(me.named)) { // objects that the pod and its owners name
		for _, u := range a.names[name] {
			if inReach(c, u) && me.names(u) && !seen[u] {
				seen[u] = true
				frontier = append(frontier, u)
			}
		}
	}
	for _, u := range a.objects {
		if !seen[u] && inReach(c, u) && me.namedBy(u) {
			seen[u] = true
			frontier = append(frontier, u)
		}
	}
	for range 3 { // a queue's queue, that queue's admission check, its parameters
		var next []*unstructured.Unstructured
		for _, u := range frontier {
			for _, leaf := range leaves(u.Object["spec"], "") {
				for _, other := range a.names[leaf.value] {
					if !seen[other] && inReach(c, other) && sameFamily(u, other, leaf.key) && len(seen) < mostRelated {
						seen[other] = true
						next = append(next, other)
					}
				}
			}
		}
		frontier = next
	}
	owners := make(map[string]bool)
	for _, o := range ownersAbove(c) {
		owners[string(o.GetUID())] = true
	}
	for _, u := range a.objects {
		if seen[u] && !owners[string(u.GetUID())] {
			gvk := u.GroupVersionKind()
			out = append(out, relative{u, facts.KindOf(gvk.Group, gvk.Kind) == nil})
		}
	}
	return out
}

// inReach says whether an object can have to do with the pod: of its namespace, or of none.
func inReach(c *check.Case, u *unstructured.Unstructured) bool {
	return u.GetNamespace() == "" || u.GetNamespace() == c.Pod.Namespace
}

// self is what may be named of a case, and what it names.
type self struct {
	uids   map[string]bool     // the pod's, its owners', its claims'
	called map[string]string   // names of these, and of its group, queue and node: with their kinds
	named  map[string][]string // values of its labels, annotations and spec that may be names: with their keys
	labels labels.Set
}

func selfOf(c *check.Case) *self {
	s := &self{uids: make(map[string]bool), called: make(map[string]string), named: make(map[string][]string), labels: c.Pod.Labels}
	know := func(o facts.Object) {
		if uid := string(o.GetUID()); uid != "" {
			s.uids[uid] = true
		}
		s.called[o.GetName()] = facts.RefTo(o).Kind
		s.says(o.GetLabels())
		s.says(o.GetAnnotations())
	}
	if c.Exists {
		know(c.Pod)
	} else {
		s.says(c.Pod.Labels)
		s.says(c.Pod.Annotations)
	}
	for _, o := range ownersAbove(c) {
		know(o)
		if u, ok := o.(*unstructured.Unstructured); ok {
			for _, l := range leaves(u.Object["spec"], "") {
				s.named[l.value] = append(s.named[l.value], l.key)
			}
		}
	}
	for i := range c.Pod.Spec.Volumes {
		v := &c.Pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			s.called[v.PersistentVolumeClaim.ClaimName] = "PersistentVolumeClaim"
			for _, p := range c.PersistentVolumeClaims {
				if p.Namespace == c.Pod.Namespace && p.Name == v.PersistentVolumeClaim.ClaimName {
					know(p)
					if r := p.Spec.DataSourceRef; r != nil {
						s.named[r.Name] = append(s.named[r.Name], "dataSourceRef "+r.Kind)
					}
					if r := p.Spec.DataSource; r != nil {
						s.named[r.Name] = append(s.named[r.Name], "dataSource "+r.Kind)
					}
				}
			}
		case v.Secret != nil:
			s.called[v.Secret.SecretName] = "Secret"
		case v.ConfigMap != nil:
			s.called[v.ConfigMap.Name] = "ConfigMap"
		case v.CSI != nil:
			s.says(v.CSI.VolumeAttributes)
		}
	}
	for i := range c.Pod.Spec.Containers {
		k := &c.Pod.Spec.Containers[i]
		for _, e := range k.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				s.called[e.ValueFrom.SecretKeyRef.Name] = "Secret"
			}
		}
		for _, e := range k.EnvFrom {
			if e.SecretRef != nil {
				s.called[e.SecretRef.Name] = "Secret"
			}
		}
	}
	for _, p := range c.Pod.Spec.ImagePullSecrets {
		s.called[p.Name] = "Secret"
	}
	for _, r := range c.Pod.Spec.ResourceClaims {
		if r.ResourceClaimName != nil {
			s.called[*r.ResourceClaimName] = "ResourceClaim"
		}
		if r.ResourceClaimTemplateName != nil {
			s.called[*r.ResourceClaimTemplateName] = "ResourceClaimTemplate"
		}
	}
	if g := c.Pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		s.called[*g.PodGroupName] = "PodGroup"
	}
	if n := c.Pod.Spec.NodeName; n != "" && c.State == facts.Starting {
		s.called[n] = "Node"
	}
	delete(s.called, "")
	delete(s.named, "")
	return s
}

// says notes values that may be names.
func (s *self) says(values map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		s.named[values[k]] = append(s.named[values[k]], k)
	}
}

// names says whether the pod, or an owner, means the object by the name.
func (s *self) names(u *unstructured.Unstructured) bool {
	return slices.ContainsFunc(s.named[u.GetName()], func(key string) bool { return means(strings.ToLower(key), u) })
}

// means says whether the key of a name shares a word with the object's kind or its group.
func means(key string, u *unstructured.Unstructured) bool {
	kind, group := strings.ToLower(u.GetKind()), u.GroupVersionKind().Group
	if strings.Contains(key, kind) || strings.Contains(kind, "queue") && strings.Contains(key, "queue") || strings.Contains(kind, "group") && strings.Contains(key, "group") {
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	return ok && (strings.HasSuffix(domain, group) || strings.HasSuffix(group, domain) || shares(wordsOf(domain), group))
}

// namedBy says whether the object belongs to the pod's chain by its own word: an owner, a reference, or a selector.
func (s *self) namedBy(u *unstructured.Unstructured) bool {
	for _, o := range u.GetOwnerReferences() {
		if s.uids[string(o.UID)] {
			return true
		}
	}
	for _, l := range leaves(u.Object["spec"], "") {
		kind, ok := s.called[l.value]
		if !ok {
			if s.uids[l.value] {
				return true
			}
			continue
		}
		if l.kind != "" && !strings.EqualFold(l.kind, kind) {
			continue
		}
		if l.kind != "" || refers(l.key, kind) {
			return true
		}
	}
	if s.selectedBy(u) {
		return true
	}
	for k, v := range u.GetLabels() {
		if kind, ok := s.called[v]; ok && refers(k, kind) {
			return true
		}
	}
	for k, v := range u.GetAnnotations() {
		if kind, ok := s.called[v]; ok && refers(k, kind) {
			return true
		}
	}
	return len(s.called) > 0 && s.called[u.GetName()] != "" // of the same name as the pod, its owner, or a Secret that it uses
}

// selectedBy says whether the object has a selector that the pod's labels meet.
func (s *self) selectedBy(u *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "selector"}, {"spec", "podSelector"}, {"spec", "workloadSelector"}} {
		tree, ok, _ := unstructured.NestedMap(u.Object, path...)
		if !ok {
			continue
		}
		if inner, ok := tree["matchLabels"].(map[string]any); ok {
			tree = inner
		}
		want := labels.Set{}
		for k, v := range tree {
			if text, ok := v.(string); ok {
				want[k] = text
			}
		}
		if len(want) > 0 && len(want) == len(tree) && labels.SelectorFromSet(want).Matches(s.labels) {
			return true
		}
	}
	return false
}

// refers says whether a key may hold a name of the kind.
func refers(key, kind string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, strings.ToLower(kind)) || strings.HasSuffix(key, "name") || strings.HasSuffix(key, "ref") || strings.Contains(key, "target") || strings.Contains(key, "workload") ||
		strings.HasSuffix(key, "for") || strings.Contains(key, "owner") || strings.HasSuffix(key, "names") || strings.HasSuffix(key, "pod") || strings.HasSuffix(key, "pods")
}

// sameFamily says whether one object means the other by the name under the key: of one API group, or of a kind in the key.
func sameFamily(from, to *unstructured.Unstructured, key string) bool {
	key = strings.ToLower(key)
	return from.GroupVersionKind().Group == to.GroupVersionKind().Group || strings.Contains(key, strings.ToLower(to.GetKind())) || strings.HasSuffix(key, "ref") || strings.HasSuffix(key, "name")
}

// leaf is a string in an object's spec, the key that it is under (with the key of its map, for a mere "name"), and the kind
// that stands beside it.
type leaf struct{ key, value, kind string }

const mostLeaves = 500

func leaves(at any, key string) []leaf {
	var out []leaf
	var walk func(at any, key string, depth int)
	walk = func(at any, key string, depth int) {
		if depth > 10 || len(out) >= mostLeaves {
			return
		}
		switch at := at.(type) {
		case string:
			if at != "" && len(at) <= 253 {
				out = append(out, leaf{key: key, value: at})
			}
		case []any:
			for _, v := range at {
				walk(v, key, depth+1)
			}
		case map[string]any:
			kind, _ := at["kind"].(string)
			for _, k := range slices.Sorted(maps.Keys(at)) {
				v := at[k]
				if s, ok := v.(string); ok {
					under := k
					if k == "name" {
						under = key + " name"
					}
					if s != "" && k != "kind" && k != "namespace" && len(s) <= 253 {
						out = append(out, leaf{key: under, value: s, kind: kind})
					}
					continue
				}
				walk(v, k, depth+1)
			}
		}
	}
	walk(at, key, 0)
	return out
}

// ownersAbove are all owners of the pod, whatever their kind, as far as they were read; the nearest first.
func ownersAbove(c *check.Case) []facts.Object {
	var out []facts.Object
	seen := make(map[string]bool)
	add := func(o facts.Object) {
		if o != nil && !seen[string(o.GetUID())] && len(out) < 16 {
			seen[string(o.GetUID())] = true
			out = append(out, o)
		}
	}
	from := facts.Object(c.Pod)
	if !c.Exists || len(c.Pod.OwnerReferences) == 0 {
		from = c.Owner()
		if from != facts.Object(c.Pod) {
			add(from)
		}
	}
	look := []facts.Object{from}
	for depth := 0; depth < 8 && len(look) > 0; depth++ {
		var next []facts.Object
		for _, o := range look {
			for _, r := range o.GetOwnerReferences() {
				if up := c.ObjectOf(r.UID); up != nil && !seen[string(r.UID)] {
					add(up)
					next = append(next, up)
				}
			}
		}
		look = next
	}
	return out
}

// owners are faults that are reported of the pod's owners. Most are consequences of what keeps their pods: they count where
// nothing else does.
func owners(c *check.Case) []Sign {
	var out []Sign
	for _, o := range ownersAbove(c) {
		_, suspended := facts.Suspended(o)
		if c.WasEdited(o) || suspended && c.Edited() {
			continue
		}
		var own []Sign
		if at := o.GetDeletionTimestamp(); at != nil && c.State == facts.Absent && c.Now.Sub(at.Time) > life.Patience {
			own = append(own, goes(c, o))
		}
		for _, k := range facts.ConditionsOf(o) {
			if !k.Bad() || c.State == facts.Succeeded || fleeting(c, k) {
				continue
			}
			s := condition(c, o, k)
			s.Young = c.Now.Sub(o.GetCreationTimestamp().Time) < life.Patience && k.Status != string(metav1.ConditionTrue)
			gvk := o.GetObjectKind().GroupVersionKind()
			_, foreign := o.(*unstructured.Unstructured)
			if c.State == facts.Gated && s.Layer == check.L4 { // it has not come to the program yet
				s.Layer, s.Owner = check.L3, check.Scheduler
			}
			s.Stands = foreign && (c.Waits() || c.State == facts.Gated) && facts.KindOf(gvk.Group, gvk.Kind) == nil && !ofPods.MatchString(k.Type) && !spectators.MatchString(gvk.Kind)
			own = append(own, s)
		}
		if len(own) == 0 && (c.State == facts.Absent || c.State == facts.Gated) {
			for _, e := range warnings(c.Facts, o) {
				if made(c, o, facts.EventTime(e)) {
					break
				}
				s := event(c, o, e)
				s.Young = c.Now.Sub(o.GetCreationTimestamp().Time) < life.Patience
				s.Stands = e.Reason != "FailedCreate" && c.State == facts.Absent // which says what the API server said, and is read as that
				if r, ok := life.ReadRefusal(e.Message); ok {
					if life.FollowsAnother(c, &r) {
						break
					}
					s.Layer, s.Owner, s.Stage = check.L3, refusedBy(r), check.Create
				} else if failsToMake.MatchString(e.Reason) { // for no rule: the API server could not do it
					s.Layer, s.Stage = check.L3, check.Create
					if _, foreign := o.(*unstructured.Unstructured); !foreign {
						s.Owner = check.Platform
					}
				}
				own = append(own, s)
				break
			}
		}
		if u, ok := o.(*unstructured.Unstructured); ok && suspended && c.State == facts.Absent {
			own = append(own, Sign{Evidence: facts.Evidence{Object: facts.RefTo(u).In(), Field: "spec.suspend", Value: "true"}, What: fmt.Sprintf("%s is suspended", facts.RefTo(u)), Layer: check.L3, Owner: check.User, Stage: check.Admit})
		}
		if d, ok := o.(*appsv1.Deployment); ok && len(own) == 0 && d.Spec.Paused && d.Status.UpdatedReplicas < ptr.Deref(d.Spec.Replicas, 1) {
			own = append(own, Sign{Evidence: facts.Evidence{Object: facts.RefTo(d).In(), Field: "spec.paused", Value: "true"}, What: fmt.Sprintf("%s is paused, and pods are missing of its newest template", facts.RefTo(d)), Layer: check.L4, Owner: check.User, Stage: check.Create})
		}
		out = append(out, own...)
	}
	return out
}

// failsToMake are the reasons of events with which controllers say that they could not make something.
var failsToMake = regexp.MustCompile(`(?i)fail\w*creat|creat\w*fail`)

// refusedBy is who has to act where the API server refuses pods.
func refusedBy(r life.Refusal) check.Owner {
	switch r.By {
	case life.ByBrokenWebhook, life.ByConversion, life.ByRights:
		return check.Platform
	case life.ByQuota:
		return check.Scheduler
	case life.ByWebhook, life.ByPolicy, life.ByPodSecurity, life.ByOther:
		return check.Policy
	}
	return check.User
}

// goes is an owner that was deleted and is still there: it makes no pods any more, and its finalizers say who keeps it.
func goes(c *check.Case, o facts.Object) Sign {
	s := Sign{Evidence: facts.Evidence{Object: facts.RefTo(o).In(), Field: "metadata.deletionTimestamp", Value: o.GetDeletionTimestamp().UTC().Format(time.RFC3339)},
		What:  fmt.Sprintf("%s was deleted %s ago and makes no more pods", facts.RefTo(o), wording.Minutes(c.Now.Sub(o.GetDeletionTimestamp().Time))),
		Layer: check.L3, Owner: check.User, Stage: check.Create, Stands: true, Since: o.GetDeletionTimestamp().Time,
		Advice: "Create it again under another name, or wait until it is gone."}
	if held := o.GetFinalizers(); len(held) > 0 {
		s.Owner = check.Platform
		s.What += ", and finalizer " + strings.Join(held, ", ") + " keeps it"
		s.Field, s.Value = "metadata.finalizers", strings.Join(held, ", ")
		s.Advice = fmt.Sprintf("Have the controller of %s finish: when its finalizer is gone, the object is, and it can be created again.", held[0])
	}
	return s
}

// ofPods are conditions with which an owner says how its pods fare: a consequence.
var ofPods = regexp.MustCompile(`(?i)pod|schedul|worker|replica|member|rank|start|launch|created|admitted|quota|resources`)

// made says whether the owner has made something since.
func made(c *check.Case, o facts.Object, since time.Time) bool {
	r := facts.RefTo(o)
	return slices.ContainsFunc(c.EventsNamed(r.Kind, r.Namespace, r.Name), func(e *corev1.Event) bool {
		return strings.HasPrefix(e.Reason, "SuccessfulCreate") && facts.EventTime(e).After(since.Add(5*time.Second))
	})
}

// fleeting says whether the condition only says that the pods are not up yet, of pods that come up in time.
func fleeting(c *check.Case, k facts.Condition) bool {
	name := strings.ToLower(k.Type)
	if c.State == facts.Gated && k.Message != "" {
		return false // what an owner says of itself may be what the gate waits for
	}
	if !slices.ContainsFunc([]string{"available", "ready", "progressing", "running", "healthy", "rayclusterprovisioned", "headpodready"}, func(w string) bool { return strings.HasSuffix(name, w) }) {
		return false
	}
	return c.State == facts.Starting || c.Waits() && c.Exists || life.Leaving(c) != nil || c.State == facts.Running && (readyInTime(c) || c.Now.Sub(k.Since) < probes)
}
