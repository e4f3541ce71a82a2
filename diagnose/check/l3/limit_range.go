package l3

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var limitRangeCheck = check.Check{
	Cause: "limit-range", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 6,
	Title:   "A LimitRange of the namespace does not allow it",
	Meaning: "The API server refuses to create the pod, or a claim that is made with it, because one container, the pod, or the claim asks for more, or less, than a LimitRange of the namespace lets a single one have.",
	Remedy:  "Ask for what the LimitRange allows, or have it changed.",
	Not:     "The quota is used up: a LimitRange is about one pod, whatever others use.",
	Find:    limitRange,
}

func limitRange(c *check.Case) []check.Finding {
	if !life.Wanted(c) {
		return nil
	}
	if !c.Sees("limitranges", c.Pod.Namespace) {
		if r := life.DeniedBy(c, life.ByLimitRange); r != nil {
			return []check.Finding{{Message: fmt.Sprintf("a LimitRange of namespace %s does not allow it: %s", c.Pod.Namespace, r.Text), Evidence: []facts.Evidence{r.Evidence}}}
		}
		return nil
	}
	out := limitedBelowRequest(c)
	p := place.AsCreated(c)
	for _, l := range place.LimitRanges(c.Facts, p.Namespace) {
		for i := range l.Spec.Limits {
			b := bounds{c: c, l: l, item: i, LimitRangeItem: &l.Spec.Limits[i]}
			switch b.Type {
			case corev1.LimitTypeContainer:
				for _, at := range life.ContainersOf(p) {
					out = append(out, b.crossed(&at, at.Noun(), at.Resources.Requests, at.Resources.Limits)...)
				}
			case corev1.LimitTypePod:
				out = append(out, b.crossed(nil, "the pod", podspec.TotalRequests(p), podspec.TotalLimits(p))...)
			case corev1.LimitTypePersistentVolumeClaim:
				out = append(out, b.ofClaims()...)
			}
		}
	}
	return out
}

// bounds is one item of a LimitRange.
type bounds struct {
	c    *check.Case
	l    *corev1.LimitRange
	item int
	*corev1.LimitRangeItem
}

// crossed is what of the item a container, or the pod where it is nil, does not keep.
func (b *bounds) crossed(at *life.Container, who string, requests, limits corev1.ResourceList) []check.Finding {
	var out []check.Finding
	for _, name := range podspec.Names(b.Max) {
		most := b.Max[name]
		limit, limited := limits[name]
		request := requests[name]
		switch {
		case limited && limit.Cmp(most) > 0, request.Cmp(most) > 0:
			asked := limit
			if asked.Cmp(request) < 0 {
				asked = request
			}
			f := b.finding("max", name, most, fmt.Sprintf("allows at most %s %s per %s, and %s asks for %s", &most, name, b.Type, who, &asked))
			f.Edits = append(b.lower(at, name, most), b.moved("max", "raise", name, most, asked))
			b.blame(&f, name, func(q resource.Quantity) bool { return q.Cmp(most) > 0 })
			out = append(out, f)
		case !limited:
			f := b.finding("max", name, most, fmt.Sprintf("allows at most %s %s per %s, and %s sets no limit", &most, name, b.Type, who))
			if at != nil {
				f.Edits = []edit.Edit{{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("give %s a %s limit of %s", who, name, &most), Ops: limiting(b.c, at, name, most)}}
			}
			out = append(out, f)
		}
	}
	for _, name := range podspec.Names(b.Min) {
		least := b.Min[name]
		request, requested := requests[name]
		switch {
		case !requested:
			out = append(out, b.finding("min", name, least, fmt.Sprintf("wants at least %s %s per %s, and %s requests none", &least, name, b.Type, who)))
		case request.Cmp(least) < 0:
			f := b.finding("min", name, least, fmt.Sprintf("wants at least %s %s per %s, and %s requests %s", &least, name, b.Type, who, &request))
			f.Edits = append(b.lower(at, name, least), b.moved("min", "lower", name, least, request))
			b.blame(&f, name, func(q resource.Quantity) bool { return q.Cmp(least) < 0 })
			out = append(out, f)
		}
	}
	for _, name := range podspec.Names(b.MaxLimitRequestRatio) {
		ratio := b.MaxLimitRequestRatio[name]
		request, limit := requests[name], limits[name]
		if request.IsZero() || limit.IsZero() || limit.AsApproximateFloat64() > request.AsApproximateFloat64()*ratio.AsApproximateFloat64() {
			f := b.finding("maxLimitRequestRatio", name, ratio, fmt.Sprintf("allows a %s limit of %s times the request, and %s has limit %s and request %s", name, &ratio, who, &limit, &request))
			f.Edits = b.nearer(at, name, limit, ratio)
			out = append(out, f)
		}
	}
	return out
}

// ofClaims is about claims of volumes that a StatefulSet has to make before its next pod, and that are larger or smaller than one
// may be. Claims that exist were let in.
func (b *bounds) ofClaims() (out []check.Finding) {
	s, ok := b.c.Owner().(*appsv1.StatefulSet)
	if !ok {
		return nil
	}
	for i := range s.Spec.VolumeClaimTemplates {
		t := &s.Spec.VolumeClaimTemplates[i]
		ask, asked := t.Spec.Resources.Requests[corev1.ResourceStorage]
		if !asked || !b.lacksClaim(s, t.Name) {
			continue
		}
		most, least := b.Max[corev1.ResourceStorage], b.Min[corev1.ResourceStorage]
		var f check.Finding
		switch {
		case !most.IsZero() && ask.Cmp(most) > 0:
			f = b.finding("max", corev1.ResourceStorage, most, fmt.Sprintf("allows claims of at most %s, and claim template %s of %s asks for %s", &most, t.Name, facts.RefTo(s), &ask))
			f.Edits = []edit.Edit{b.moved("max", "raise", corev1.ResourceStorage, most, ask)}
		case ask.Cmp(least) < 0:
			f = b.finding("min", corev1.ResourceStorage, least, fmt.Sprintf("wants claims of at least %s, and claim template %s of %s asks for %s", &least, t.Name, facts.RefTo(s), &ask))
			f.Edits = []edit.Edit{b.moved("min", "lower", corev1.ResourceStorage, least, ask)}
		default:
			continue
		}
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(s).In(), Field: fmt.Sprintf("spec.volumeClaimTemplates[%q].spec.resources.requests[%q]", t.Name, corev1.ResourceStorage), Value: ask.String()})
		f.Advice = "Ask for a size that the LimitRange allows, or have it changed. Claim templates cannot be edited: the StatefulSet has to be made anew."
		out = append(out, f)
	}
	return out
}

// lacksClaim says whether a pod that the StatefulSet wants has no claim of that template yet.
func (b *bounds) lacksClaim(s *appsv1.StatefulSet, template string) bool {
	first := 0
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	for i := range int(ptr.Deref(s.Spec.Replicas, 1)) {
		if place.Named(b.c.PersistentVolumeClaims, s.Namespace, fmt.Sprintf("%s-%s-%d", template, s.Name, first+i)) == nil {
			return true
		}
	}
	return false
}

// blame is whose it is to act: the LimitRange's owner's where nothing that the author writes is right, where the amount is not the
// author's, and where the LimitRange came after the work. Else the author was told, and asks for too much.
func (b *bounds) blame(f *check.Finding, name corev1.ResourceName, crosses func(resource.Quantity) bool) {
	switch l := place.GivenBy(b.c, string(name)); {
	case b.contradicted(f, name):
	case l != nil && !b.c.Exists:
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; the pod does not say how much it wants, and LimitRange %s gives it that", l.Name)
	default:
		b.before(f, name, crosses)
	}
}

// contradicted says whether another LimitRange, or this one, leaves no amount that is right.
func (b *bounds) contradicted(f *check.Finding, name corev1.ResourceName) bool {
	for _, l := range place.LimitRanges(b.c.Facts, b.l.Namespace) {
		for i, other := range l.Spec.Limits {
			if other.Type != b.Type {
				continue
			}
			least, most := other.Min[name], b.Max[name]
			if strings.Contains(f.Evidence[0].Field, ".min[") {
				least, most = b.Min[name], other.Max[name]
			}
			if most.IsZero() || least.Cmp(most) <= 0 {
				continue
			}
			f.Owner = check.Scheduler
			f.Message += fmt.Sprintf("; beside LimitRange %s no amount is right, which would be at least %s and at most %s", l.Name, &least, &most)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(l).In(), Field: fmt.Sprintf("spec.limits[%d]", i), Value: fmt.Sprintf("at least %s, at most %s", &least, &most)})
			return true
		}
	}
	return false
}

// before is a pod of the namespace that runs with more, or less, than the item allows now: it was let in by another one. What has changed
// since is the LimitRange, and its owner has to act.
func (b *bounds) before(f *check.Finding, name corev1.ResourceName, crosses func(resource.Quantity) bool) {
	for _, p := range b.c.Pods {
		if p.Namespace != b.l.Namespace || p.Spec.NodeName == "" || facts.Ended(p) || b.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, k := range life.ContainersOf(p) {
			has, ok := k.Resources.Limits[name]
			if !ok {
				has, ok = k.Resources.Requests[name]
			}
			if ok && crosses(has) {
				f.Owner = check.Scheduler
				f.Message += fmt.Sprintf("; pod %s, which runs, was let in with %s, so that the LimitRange has changed since", p.Name, &has)
				f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("spec.containers[%q].resources[%q]", k.Name, name), Value: has.String()})
				return
			}
		}
	}
	if e, ok := hadPods(b.c, b.c.Owner()); ok && !b.c.Edited() {
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; pods of the same template of %s were let in before, so that the LimitRange has changed since", facts.RefTo(b.c.Owner()))
		f.Evidence = append(f.Evidence, e)
		return
	}
	if since := templateSince(b.c); !b.c.Edited() && !since.IsZero() && b.l.CreationTimestamp.Sub(since) > time.Minute {
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; the LimitRange was made %s later than %s", wording.Minutes(b.l.CreationTimestamp.Sub(since)), facts.RefTo(b.c.Owner()))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(b.l).In(), Field: "metadata.creationTimestamp", Value: b.l.CreationTimestamp.UTC().Format(time.RFC3339)})
		return
	}
	b.othersBefore(f, name, crosses)
}

// templateSince is since when what makes the pod has said that they are so; zero where it may have said otherwise since it was made.
func templateSince(c *check.Case) time.Time {
	maker := c.Owner()
	if cron, ok := c.Controller(maker).(*batchv1.CronJob); ok {
		maker = cron
	}
	switch maker.(type) {
	case *appsv1.ReplicaSet, *batchv1.Job: // whose templates do not change
		return maker.GetCreationTimestamp().Time
	}
	if maker.GetGeneration() > 1 {
		return time.Time{}
	}
	return maker.GetCreationTimestamp().Time
}

// othersBefore says that other work of the namespace, which asks for as much, had pods: what is new itself shows nothing.
func (b *bounds) othersBefore(f *check.Finding, name corev1.ResourceName, crosses func(resource.Quantity) bool) {
	if b.Type != corev1.LimitTypeContainer || b.c.Edited() {
		return
	}
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} {
		k := facts.KindOf(groupOfMaker[kind], kind)
		for _, m := range k.List(&b.c.Objects) {
			t := facts.TemplateOf(m)
			if m.GetNamespace() != b.l.Namespace || t == nil || facts.RefTo(b.c.TopOwner(m)) == b.c.Target {
				continue
			}
			asks := slices.ContainsFunc(t.Spec.Containers, func(k corev1.Container) bool {
				has, ok := k.Resources.Limits[name]
				if !ok {
					has, ok = k.Resources.Requests[name]
				}
				return ok && crosses(has)
			})
			if !asks {
				continue
			}
			if e, ok := hadPods(b.c, m); ok {
				f.Owner = check.Scheduler
				f.Message += fmt.Sprintf("; pods of %s, which asks for as much, were let in before, so that the LimitRange has changed since", facts.RefTo(b.c.TopOwner(m)))
				f.Evidence = append(f.Evidence, e)
				return
			}
		}
	}
}

var groupOfMaker = map[string]string{"ReplicaSet": "apps", "StatefulSet": "apps", "Job": "batch"}

// hadPods shows that pods of the maker's template have been let in: it says so of itself, after they are gone.
func hadPods(c *check.Case, maker facts.Object) (e facts.Evidence, ok bool) {
	e.Object = facts.RefTo(maker).In()
	switch m := maker.(type) {
	case *appsv1.ReplicaSet:
		d, _ := c.Controller(m).(*appsv1.Deployment)
		if d == nil {
			break
		}
		for _, k := range d.Status.Conditions { // of the newest template, which it has rolled out
			if k.Type == appsv1.DeploymentProgressing && k.Status == corev1.ConditionTrue && k.Reason == "NewReplicaSetAvailable" && strings.Contains(k.Message, `"`+m.Name+`"`) {
				return facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.conditions[Progressing]", Value: k.Reason + ": " + k.Message}, true
			}
		}
	case *appsv1.StatefulSet:
		if s := m.Status; s.ObservedGeneration == m.Generation && s.UpdateRevision != "" && s.CurrentRevision == s.UpdateRevision && hasHistory(c, m) {
			e.Field, e.Value = "status.currentRevision", s.CurrentRevision
			return e, true
		}
	case *batchv1.Job: // whose template does not change
		if n := m.Status.Failed + m.Status.Succeeded; n > 0 {
			e.Field, e.Value = "status", wording.Number(n, "pod")+" ended"
			return e, true
		}
	}
	r := facts.RefTo(maker)
	for _, x := range c.EventsNamed(r.Kind, r.Namespace, r.Name) {
		if x.Reason == "SuccessfulCreate" && strings.Contains(strings.ToLower(x.Message), "pod") && x.InvolvedObject.UID == maker.GetUID() {
			if _, stateful := maker.(*appsv1.StatefulSet); !stateful { // whose template may have changed since
				return life.Shown(x), true
			}
		}
	}
	return e, false
}

// hasHistory says whether the StatefulSet has had pods: claims that it made for them outlive them.
func hasHistory(c *check.Case, s *appsv1.StatefulSet) bool {
	for i := range s.Spec.VolumeClaimTemplates {
		if place.Named(c.PersistentVolumeClaims, s.Namespace, fmt.Sprintf("%s-%s-0", s.Spec.VolumeClaimTemplates[i].Name, s.Name)) != nil {
			return true
		}
	}
	r := facts.RefTo(s)
	return slices.ContainsFunc(c.EventsNamed(r.Kind, r.Namespace, r.Name), func(x *corev1.Event) bool {
		return x.Reason == "SuccessfulCreate" && strings.HasPrefix(x.Message, "create Pod ") && x.InvolvedObject.UID == s.UID
	})
}

func (b *bounds) finding(field string, name corev1.ResourceName, value resource.Quantity, said string) check.Finding {
	r := facts.RefTo(b.l)
	return check.Finding{
		Message:  fmt.Sprintf("LimitRange %s of namespace %s %s", r.Name, r.Namespace, said),
		Evidence: []facts.Evidence{{Object: r.In(), Field: fmt.Sprintf("spec.limits[%d].%s[%q]", b.item, field, name), Value: value.String()}},
	}
}

// lower has the container ask for just what is allowed; of a pod, the one container that asks for it.
func (b *bounds) lower(at *life.Container, name corev1.ResourceName, to resource.Quantity) []edit.Edit {
	p := place.AsCreated(b.c)
	for _, i := range podspec.Requesters(p, name) {
		if at != nil && p.Spec.Containers[i].Name != at.Name || at == nil && len(podspec.Requesters(p, name)) > 1 {
			continue
		}
		if ops := place.Asking(b.c, i, name, to); len(ops) > 0 {
			return []edit.Edit{{Side: edit.Workload, Cost: 2, Ops: ops, Text: fmt.Sprintf("ask for %s %s in container %s", &to, name, p.Spec.Containers[i].Name)}}
		}
	}
	return nil
}

// nearer has the container request so much of its limit as the ratio wants.
func (b *bounds) nearer(at *life.Container, name corev1.ResourceName, limit, ratio resource.Quantity) []edit.Edit {
	times := ratio.AsApproximateFloat64()
	if at == nil || limit.IsZero() || times <= 0 {
		return nil
	}
	least := podspec.Quantity(string(name), int64(math.Ceil(float64(podspec.Amount(string(name), limit))/times)))
	return []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("request %s %s in %s", &least, name, at.Noun()),
		Ops: []edit.Op{{Op: "replace", Path: at.Path("resources", "requests", string(name)), Value: least.String()}}}}
}

// moved changes the LimitRange so that it lets the pod in.
func (b *bounds) moved(field, verb string, name corev1.ResourceName, from, to resource.Quantity) edit.Edit {
	n := b.l.DeepCopy()
	list := n.Spec.Limits[b.item].Max
	if field == "min" {
		list = n.Spec.Limits[b.item].Min
	}
	list[name] = to
	ops := []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "limits", strconv.Itoa(b.item), field, string(name)), Value: to.String()}}
	return edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: []facts.Object{n}, Command: edit.PatchLine(n, "json", ops),
		Text: fmt.Sprintf("%s the %s of %s per %s in LimitRange %s from %s to %s", verb, field, name, b.Type, n.Name, &from, &to),
	}
}
