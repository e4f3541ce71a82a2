package l3

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var quotaExceededCheck = check.Check{
	Cause: "quota-exceeded", Layer: check.L3, Owner: check.Scheduler, Stage: check.Create, Rank: 10,
	Title:   "The namespace's ResourceQuota is used up",
	Meaning: "The API server refuses to create the pod, because the namespace would then ask for more than a ResourceQuota allows. Nodes may well be idle.",
	Remedy:  "Raise the quota, ask for less, or wait until other work of the namespace ends.",
	Not:     "The cluster is full.",
	Find:    quotaExceeded,
}

func quotaExceeded(c *check.Case) []check.Finding {
	if !c.Sees("resourcequotas", c.Pod.Namespace) && (c.Exists || life.Wanted(c)) {
		return quotaSaid(c)
	}
	if !life.Wanted(c) {
		return quotaOfObjects(c)
	}
	var out []check.Finding
	p := place.AsCreated(c)
	for _, q := range c.ResourceQuotas {
		if q.Namespace != p.Namespace || !podspec.InScopes(q, p) {
			continue
		}
		if f := quotaSilent(c, q, p); f != nil {
			out = append(out, *f)
		} else if f := overResourceQuota(c, q, p); f != nil {
			out = append(out, *f)
		}
	}
	if len(out) > 0 {
		return out
	}
	if out = quotaOfClaims(c); len(out) > 0 {
		return out
	}
	if out = quotaWanted(c, p); len(out) > 0 {
		return out
	}
	if out = quotaOfAnotherKind(c); len(out) > 0 {
		return out
	}
	return quotaOfObjects(c)
}

// quotaOfAnotherKind is about quotas over several namespaces, which other projects' admission enforces in the words of Kubernetes' own
// (OpenShift: pkg/quota/clusterquotareconciliation, and the admission plugin quota.openshift.io/ClusterResourceQuota).
func quotaOfAnotherKind(c *check.Case) []check.Finding {
	r := life.DeniedBy(c, life.ByQuota)
	if r == nil || r.Name == "" || slices.ContainsFunc(c.ResourceQuotas, func(q *corev1.ResourceQuota) bool { return q.Namespace == c.Pod.Namespace && q.Name == r.Name }) {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(c.Foreign)) {
		if !strings.Contains(k, "Quota") {
			continue
		}
		for _, q := range c.Foreign[k] {
			if q.GetName() != r.Name || q.GetNamespace() != "" && q.GetNamespace() != c.Pod.Namespace {
				continue
			}
			return []check.Finding{{
				Message:  fmt.Sprintf("%s does not allow it: %s", facts.RefTo(q), r.Text),
				Evidence: []facts.Evidence{r.Evidence, {Object: facts.RefTo(q).In(), Field: "spec", Value: r.Text}},
			}}
		}
	}
	return nil
}

// scope is how the API server writes a scope that some quota has to have: "{PriorityClass In [system-node-critical]}".
var scope = regexp.MustCompile(`\{(\w+) (\w+) \[([^\]]*)\]\}`)

// quotaWanted is about a cluster that lets certain pods, as a rule those of a high priority, only into namespaces that have a quota
// for them, and this one has none.
func quotaWanted(c *check.Case, p *corev1.Pod) []check.Finding {
	r := life.DeniedBy(c, life.ByQuota)
	if r == nil || r.Name != "" {
		return nil
	}
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, m := range scope.FindAllStringSubmatch(r.Text, -1) {
		s := corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScope(m[1]), Operator: corev1.ScopeSelectorOperator(m[2]), Values: strings.Fields(m[3])}
		if !podspec.InScope(p, s) {
			return nil // the pod is another one by now
		}
		scopes = append(scopes, s)
	}
	for _, q := range c.ResourceQuotas {
		if q.Namespace == p.Namespace && len(scopes) > 0 && q.Spec.ScopeSelector != nil && podspec.InScopes(q, p) {
			return nil
		}
	}
	f := check.Finding{
		Message:  fmt.Sprintf("namespace %s has no quota that lets such a pod in: the cluster wants one with the scope %s", p.Namespace, wording.OneLine(r.Text)),
		Evidence: []facts.Evidence{r.Evidence},
		Advice:   "Give the pod another priority class, or have a ResourceQuota with that scope made in the namespace.",
	}
	byClass := slices.ContainsFunc(scopes, func(s corev1.ScopedResourceSelectorRequirement) bool {
		return s.ScopeName == corev1.ResourceQuotaScopePriorityClass
	})
	if p.Spec.PriorityClassName == "" || !byClass {
		return []check.Finding{f}
	}
	f.Message = fmt.Sprintf("namespace %s has no quota for pods of priority class %s, and the cluster lets them in only where there is one", p.Namespace, p.Spec.PriorityClassName)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.priorityClassName", Value: p.Spec.PriorityClassName})
	f.Edits = []edit.Edit{quotaFor(c, p, scopes), {
		Side: edit.Workload, Cost: edit.CostConsent, Text: fmt.Sprintf("take priority class %s away", p.Spec.PriorityClassName),
		Ops: []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "priorityClassName")}}, Assumes: "the work can do with the usual priority",
	}}
	return []check.Finding{f}
}

// quotaFor makes a quota for as many pods of these scopes as the work wants.
func quotaFor(c *check.Case, p *corev1.Pod, scopes []corev1.ScopedResourceSelectorRequirement) edit.Edit {
	hard := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(podsToCome(c)), resource.DecimalSI)}
	q := &corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: p.Spec.PriorityClassName, Namespace: p.Namespace},
		Spec:   corev1.ResourceQuotaSpec{Hard: hard, ScopeSelector: &corev1.ScopeSelector{MatchExpressions: scopes}},
		Status: corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.Quantity{}}},
	}
	e := edit.Edit{Side: edit.Cluster, Cost: edit.CostConsent, Set: []facts.Object{q}, Text: fmt.Sprintf("make a quota for %s of priority class %s in namespace %s", wording.Pods(podsToCome(c)), p.Spec.PriorityClassName, p.Namespace)}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]string{"name": q.Name, "namespace": q.Namespace}, "spec": q.Spec})
	if err == nil {
		e.Command = fmt.Sprintf("echo '%s' | kubectl create -f -", b)
	}
	return e
}

// raise writes the limit of a quota. The status may have limits that the spec has no more: it is written later.
func raise(q *corev1.ResourceQuota, key corev1.ResourceName, to resource.Quantity) {
	for _, limits := range []*corev1.ResourceList{&q.Spec.Hard, &q.Status.Hard} {
		if *limits == nil {
			*limits = make(corev1.ResourceList)
		}
		(*limits)[key] = to
	}
}

// quotaOfObjects is about objects between the target and its pods that a quota refuses: Jobs of a CronJob, by their number, and
// claims of a StatefulSet, by their size or their storage class; and about claims of devices and volumes that are made for a pod. What pods
// count for is counted, not read.
func quotaOfObjects(c *check.Case) []check.Finding {
	r := life.DeniedBy(c, life.ByQuota)
	if r == nil {
		return nil
	}
	key, ask, ok := refusedKey(r)
	for _, q := range c.ResourceQuotas {
		if _, ofPods := podspec.QuotaAsk(c.Pod, string(key)); !ok || ofPods && !c.Exists || q.Namespace != c.Pod.Namespace || q.Name != r.Name || !refusesStill(q, r) {
			continue
		}
		hard, used := q.Status.Hard[key], q.Status.Used[key]
		wanted := used.DeepCopy()
		what := fmt.Sprintf("%s needs %s more to make its pods", facts.RefTo(c.Top), &ask)
		if c.Exists {
			what = fmt.Sprintf("a claim that is made for pod %s needs %s more", c.Pod.Name, &ask)
			for range c.Like - 1 {
				wanted.Add(ask)
			}
		}
		wanted.Add(ask)
		raised := q.DeepCopy()
		raise(raised, key, wanted)
		return []check.Finding{{
			Message:  fmt.Sprintf("quota %s of namespace %s allows %s %s, %s are used, and %s", q.Name, q.Namespace, &hard, key, &used, what),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("status.hard[%q]", key), Value: hard.String()}, r.Evidence},
			Edits: []edit.Edit{{
				Side: edit.Cluster, Text: fmt.Sprintf("raise %s of quota %s from %s to %s", key, q.Name, &hard, &wanted), Set: append([]facts.Object{raised}, volumesToCome(c)...), Cost: edit.CostWait,
				Command: fmt.Sprintf("kubectl patch resourcequota %s -n %s -p '{\"spec\":{\"hard\":{%q:%q}}}'", q.Name, q.Namespace, key, wanted.String()),
			}},
		}}
	}
	return nil
}

// volumesToCome are the claims of the pod's ephemeral volumes that do not exist yet, as they will be made.
func volumesToCome(c *check.Case) (out []facts.Object) {
	for i := range c.Pod.Spec.Volumes {
		v := &c.Pod.Spec.Volumes[i]
		if !c.Exists || v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || place.Named(c.PersistentVolumeClaims, c.Pod.Namespace, c.Pod.Name+"-"+v.Name) != nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}, Spec: *v.Ephemeral.VolumeClaimTemplate.Spec.DeepCopy(),
			ObjectMeta: metav1.ObjectMeta{
				Name: c.Pod.Name + "-" + v.Name, Namespace: c.Pod.Namespace, UID: types.UID("to come " + c.Pod.Name + "-" + v.Name), CreationTimestamp: metav1.NewTime(c.Now),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.Pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		}
		out = append(out, claim)
	}
	return out
}

// quotaOfClaims is about claims that are made for the pod, and before it, and that a quota refuses.
func quotaOfClaims(c *check.Case) []check.Finding {
	const key = corev1.ResourcePersistentVolumeClaims
	r := life.DeniedBy(c, life.ByQuota)
	sts, _ := c.Owner().(*appsv1.StatefulSet)
	if r == nil || !strings.Contains(r.Value, string(key)+` "`) && sts == nil { // the words may be masked
		return nil
	}
	for _, q := range c.ResourceQuotas {
		hard, counted := q.Status.Hard[key]
		used := q.Status.Used[key]
		if q.Namespace != c.Pod.Namespace || q.Name != r.Name || !counted || used.Cmp(hard) < 0 {
			continue
		}
		more, whole := max(1, c.Like), -1
		if sts != nil {
			more, whole = claimsToCome(c, sts)
		}
		wanted := used.DeepCopy()
		wanted.Add(*resource.NewQuantity(int64(more), resource.DecimalSI))
		raised := q.DeepCopy()
		raise(raised, key, wanted)
		f := check.Finding{
			Message:  fmt.Sprintf("quota %s of namespace %s allows %s claims of volumes, all are used, and each pod needs one more", q.Name, q.Namespace, hard.String()),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("status.hard[%q]", key), Value: hard.String()}, r.Evidence},
			Edits: []edit.Edit{{
				Side: edit.Cluster, Text: fmt.Sprintf("raise %s of quota %s from %s to %s", key, q.Name, hard.String(), wanted.String()), Set: []facts.Object{raised}, Cost: edit.CostWait,
				Command: fmt.Sprintf("kubectl patch resourcequota %s -n %s -p '{\"spec\":{\"hard\":{%q:%q}}}'", q.Name, q.Namespace, key, wanted.String()),
			}},
		}
		if whole > 0 && c.Top.GetUID() == sts.UID {
			f.Message = fmt.Sprintf("quota %s of namespace %s allows %s claims of volumes, all are used, and %s needs %d more for its %d replicas", q.Name, q.Namespace, hard.String(), facts.RefTo(sts), more, ptr.Deref(sts.Spec.Replicas, 1))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(sts).In(), Field: "spec.replicas", Value: fmt.Sprint(ptr.Deref(sts.Spec.Replicas, 1))})
			f.Edits = append(f.Edits, fewerPods(c, whole))
		}
		return []check.Finding{f}
	}
	return nil
}

// claimsToCome is how many claims the StatefulSet has still to make for all pods that it wants, and how many of its pods, from the
// first on, have all of theirs. It makes them one pod after the other, so that more are missing than its next pod needs.
func claimsToCome(c *check.Case, s *appsv1.StatefulSet) (more, whole int) {
	first := 0
	if s.Spec.Ordinals != nil {
		first = int(s.Spec.Ordinals.Start)
	}
	wanted := int(ptr.Deref(s.Spec.Replicas, 1))
	for i := range wanted {
		lacks := 0
		for _, t := range s.Spec.VolumeClaimTemplates {
			if place.Named(c.PersistentVolumeClaims, s.Namespace, fmt.Sprintf("%s-%s-%d", t.Name, s.Name, first+i)) == nil {
				lacks++
			}
		}
		if lacks == 0 && whole == i {
			whole++
		}
		more += lacks
	}
	if more == 0 { // the templates were not read
		return max(1, c.Like), 0
	}
	return more, whole
}

// quotaSaid goes by the refusal, where quotas may not be read.
func quotaSaid(c *check.Case) []check.Finding {
	r := life.DeniedBy(c, life.ByQuota)
	if r == nil {
		return nil
	}
	return []check.Finding{{Message: fmt.Sprintf("quota %s of namespace %s does not allow it: %s", r.Name, c.Pod.Namespace, r.Text), Evidence: []facts.Evidence{r.Evidence}}}
}

// overResourceQuota compares what one pod more would ask for with what the quota has left. Raised is all that is too little for the pods that
// are wanted in all: a key that lets the next one in may stop the last.
func overResourceQuota(c *check.Case, q *corev1.ResourceQuota, p *corev1.Pod) *check.Finding {
	if quotaRoom(q, p, 1) > 0 {
		return nil
	}
	var said, words, patch []string
	f := check.Finding{}
	var over []corev1.ResourceName
	raised := q.DeepCopy()
	for _, key := range podspec.Names(q.Status.Hard) {
		hard, used := q.Status.Hard[key], q.Status.Used[key]
		ask, counted := podspec.QuotaAsk(p, string(key))
		if !counted || ask.IsZero() {
			continue
		}
		others := askedByOthers(c, q, string(key)) // who comes first is chance: there has to be room for all
		wanted := allAsk(used, ask, podsToCome(c))
		wanted.Add(others)
		if wanted.Cmp(hard) <= 0 {
			continue
		}
		raise(raised, key, wanted)
		patch = append(patch, fmt.Sprintf("%q:%q", key, wanted.String()))
		text := fmt.Sprintf("%s of quota %s from %s to %s", key, q.Name, &hard, &wanted)
		if !others.IsZero() {
			text += fmt.Sprintf(" (%s of it for other work that waits for it)", &others)
		}
		words = append(words, text)
		if next := allAsk(used, ask, 1); next.Cmp(hard) <= 0 {
			continue
		}
		over = append(over, key)
		said = append(said, fmt.Sprintf("allows %s %s, %s are used, and each pod asks for %s more", &hard, key, &used, &ask))
		f.Evidence = append(f.Evidence,
			facts.Evidence{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("status.hard[%q]", key), Value: hard.String()},
			facts.Evidence{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("status.used[%q]", key), Value: used.String()})
		f.Evidence = append(f.Evidence, quotaAsked(c, p, key)...)
		f.Edits = append(f.Edits, quotaLess(c, q, key, p)...)
	}
	f.Message = fmt.Sprintf("quota %s of namespace %s %s", q.Name, q.Namespace, strings.Join(said, "; it "))
	f.Evidence = append(f.Evidence, quotaHolders(c, over[0])...)
	if len(over) > 1 {
		f.Edits = nil // asking for less of one thing does not help
	}
	f.Edits = append(f.Edits, fewerInQuota(c, q, p)...)
	f.Evidence = append(f.Evidence, place.Size(c)...)
	if podspec.BestEffort(p) && !podspec.InScopes(q, requestingCPU(p)) {
		f.Message += ", of those that request neither CPU nor memory"
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(q).In(), Field: "spec.scopes", Value: string(corev1.ResourceQuotaScopeBestEffort)})
		f.Advice = "Have the pod request CPU or memory, or raise the quota."
		if hard := q.Status.Hard[over[0]]; hard.IsZero() { // no such pods are allowed
			f.Owner = check.User
		}
		f.Edits = append(f.Edits, outOfBestEffort(c, p)...)
	}
	f.Edits = append(f.Edits, edit.Edit{
		Side: edit.Cluster, Text: "raise " + strings.Join(words, " and "), Set: []facts.Object{raised}, Cost: 3,
		Command: fmt.Sprintf("kubectl patch resourcequota %s -n %s -p '{\"spec\":{\"hard\":{%s}}}'", q.Name, q.Namespace, strings.Join(patch, ",")),
	})
	return &f
}

// allAsk is what is used once so many pods more have what each asks for.
func allAsk(used, ask resource.Quantity, pods int) resource.Quantity {
	sum, more := used.DeepCopy(), ask.DeepCopy()
	more.Mul(int64(pods))
	sum.Add(more)
	return sum
}

// someCPU is requested for a container whose need is unknown.
const someCPU = "100m"

// requestingCPU is the pod as it would be if its first container requested CPU.
func requestingCPU(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	if len(p.Spec.Containers) > 0 {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(someCPU)}
	}
	return p
}

// outOfBestEffort has the pod's first container request CPU, as much as a container of that name, else of any, does in the namespace.
func outOfBestEffort(c *check.Case, p *corev1.Pod) []edit.Edit {
	all := life.ContainersOf(p)
	i := slices.IndexFunc(all, func(at life.Container) bool { return !at.Init })
	if i < 0 {
		return nil
	}
	amount, like := resource.MustParse(someCPU), ""
	for _, o := range c.Pods {
		for _, k := range o.Spec.Containers {
			q, ok := k.Resources.Requests[corev1.ResourceCPU]
			if o.Namespace == p.Namespace && ok && !q.IsZero() && (like == "" || k.Name == all[i].Name && like != k.Name) {
				amount, like = q, k.Name
			}
		}
	}
	e := requesting(c, &all[i], corev1.ResourceCPU, amount)
	if like == "" {
		e.Assumes = "it can do with as little where its node is busy"
	}
	return []edit.Edit{e}
}

// podsToCome is how many pods like this one have still to be made: a StatefulSet makes one after the other, and wants them all.
func podsToCome(c *check.Case) int {
	s, ok := c.Owner().(*appsv1.StatefulSet)
	if !ok {
		return max(1, c.Like)
	}
	have := 0
	for _, o := range c.Children(s) {
		if p, ok := o.(*corev1.Pod); ok && !facts.Ended(p) {
			have++
		}
	}
	return max(1, c.Like, int(ptr.Deref(s.Spec.Replicas, 1))-have)
}

// askedByOthers is what the pods that other workloads of the namespace have still to make would add to the quota's key.
func askedByOthers(c *check.Case, q *corev1.ResourceQuota, key string) (sum resource.Quantity) {
	for _, kind := range []string{"ReplicaSet", "StatefulSet", "Job"} {
		for _, k := range facts.Kinds {
			if k.Kind != kind || k.Foreign {
				continue
			}
			for _, m := range k.List(&c.Objects) {
				if m.GetNamespace() != q.Namespace || m.GetDeletionTimestamp() != nil || facts.RefTo(c.TopOwner(m)) == c.Target {
					continue
				}
				n := c.MissingPods(m)
				p := c.PodFrom(m, 0)
				if n == 0 || p == nil {
					continue
				}
				c.Admit(p)
				if ask, counted := podspec.QuotaAsk(p, key); counted && podspec.InScopes(q, p) {
					for range n {
						sum.Add(ask)
					}
				}
			}
		}
	}
	return sum
}

// quotaSilent is of a quota that refuses because it cannot be counted: the pod does not say what it counts, or nobody
// has counted yet.
func quotaSilent(c *check.Case, q *corev1.ResourceQuota, p *corev1.Pod) *check.Finding {
	if len(q.Status.Hard) == 0 && len(q.Spec.Hard) > 0 {
		if c.Now.Sub(q.CreationTimestamp.Time) < life.Patience {
			return nil
		}
		return &check.Finding{
			Owner:    check.Platform,
			Message:  fmt.Sprintf("quota %s of namespace %s has no status: nobody has counted what is used, so nothing is let in", q.Name, q.Namespace),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q).In(), Field: "status.hard", Value: ""}},
			Advice:   "Look at kube-controller-manager, which counts what quotas have used.",
		}
	}
	for _, key := range podspec.Names(q.Status.Hard) {
		limits, name, required := mustSay(string(key))
		if !required {
			continue
		}
		for _, at := range life.ContainersOf(p) {
			list := at.Resources.Requests
			if limits {
				list = at.Resources.Limits
			}
			if _, ok := list[name]; ok {
				continue
			}
			f := &check.Finding{
				Owner:    check.User,
				Message:  fmt.Sprintf("quota %s of namespace %s counts %s, and %s does not say how much it needs", q.Name, q.Namespace, key, at.Noun()),
				Evidence: []facts.Evidence{{Object: facts.RefTo(q).In(), Field: fmt.Sprintf("status.hard[%q]", key), Value: quantityText(q.Status.Hard[key])}},
				Advice:   fmt.Sprintf("Give every container a value for %s, or let a LimitRange of the namespace give a default.", key),
			}
			if request, ok := at.Resources.Requests[name]; ok && limits {
				f.Edits = []edit.Edit{{
					Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("give %s a %s limit of %s, as it requests", at.Noun(), name, &request),
					Ops: limiting(c, &at, name, request),
				}}
			}
			noDefault(c, f, &at, name, limits)
			return f
		}
	}
	return nil
}

// noDefault looks for the default that a LimitRange gave and gives no more: a quota that counts what no container says goes with
// one. Pods of the same template, or others of the namespace, were let in then, and the owner of quotas and LimitRanges has to act.
func noDefault(c *check.Case, f *check.Finding, at *life.Container, name corev1.ResourceName, limits bool) {
	if limits {
		return
	}
	var idle *corev1.LimitRange // one that is there and limits nothing
	for _, l := range place.LimitRanges(c.Facts, c.Pod.Namespace) {
		if idle == nil && len(l.Spec.Limits) == 0 {
			idle = l
		}
	}
	if idle != nil {
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; LimitRange %s, which could give it a default, has no limits", idle.Name)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(idle).In(), Field: "spec.limits", Value: "none"})
	}
	for _, p := range c.Pods {
		given, ok := place.GivenTo(p, name)
		if p.Namespace != c.Pod.Namespace || !ok {
			continue
		}
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; pod %s was given %s by a LimitRange that gives none now", p.Name, &given)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("metadata.annotations[%q]", place.LimitRanger), Value: p.Annotations[place.LimitRanger]})
		f.Edits = append(f.Edits, requesting(c, at, name, given), defaulting(c, idle, name, given))
		return
	}
	if e := madeBefore(c); e != nil && f.Owner == check.User {
		f.Owner = check.Scheduler
		f.Message += fmt.Sprintf("; %s made pods of the same template until %s, so that a quota or a LimitRange has changed since", facts.RefTo(c.Owner()), facts.EventTime(e).UTC().Format("2006-01-02 15:04 MST"))
		f.Evidence = append(f.Evidence, life.Shown(e))
	}
}

// madeBefore is the newest event of a pod that the owner's present template made; nil: none is left.
func madeBefore(c *check.Case) *corev1.Event {
	if _, ok := c.Owner().(*appsv1.StatefulSet); ok {
		return nil // whose template changes in place
	}
	for _, e := range c.EventsOf(c.Owner(), "SuccessfulCreate") {
		return e
	}
	return nil
}

// requesting gives the container the request.
func requesting(c *check.Case, at *life.Container, name corev1.ResourceName, amount resource.Quantity) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("request %s %s in %s", &amount, name, at.Noun()), Assumes: "it needs as much as others were given"}
	e.Ops = []edit.Op{{Op: "add", Path: at.Path("resources", "requests"), Value: map[string]string{string(name): amount.String()}}}
	for _, w := range slices.Concat(place.Written(c).Spec.InitContainers, place.Written(c).Spec.Containers) {
		if w.Name == at.Name && w.Resources.Requests != nil {
			e.Ops = []edit.Op{{Op: "add", Path: at.Path("resources", "requests", string(name)), Value: amount.String()}}
		}
	}
	return e
}

// defaulting has a LimitRange give the default again: the one that gives nothing, else one of its own.
func defaulting(c *check.Case, idle *corev1.LimitRange, name corev1.ResourceName, amount resource.Quantity) edit.Edit {
	l := &corev1.LimitRange{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, ObjectMeta: metav1.ObjectMeta{Name: "defaults", Namespace: c.Pod.Namespace}}
	if idle != nil {
		l = idle.DeepCopy()
	}
	l.Spec.Limits = append(l.Spec.Limits, corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{name: amount}})
	e := edit.Edit{Side: edit.Cluster, Cost: edit.CostWait, Set: []facts.Object{l}, Text: fmt.Sprintf("have LimitRange %s give every container a default request of %s %s", l.Name, &amount, name)}
	item := map[string]any{"type": "Container", "defaultRequest": map[string]string{string(name): amount.String()}}
	if idle != nil {
		e.Command = edit.PatchLine(l, "merge", map[string]any{"spec": map[string]any{"limits": []any{item}}})
		return e
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "LimitRange", "metadata": map[string]string{"name": l.Name, "namespace": l.Namespace}, "spec": map[string]any{"limits": []any{item}}})
	if err != nil {
		return e
	}
	e.Command = fmt.Sprintf("echo '%s' | kubectl create -f -", b)
	return e
}

func quantityText(q resource.Quantity) string { return q.String() }

// mustSay says whether every container has to give a value for the quota's key, and which.
func mustSay(key string) (limits bool, name corev1.ResourceName, required bool) {
	switch key {
	case "cpu", "requests.cpu", "limits.cpu":
		name = corev1.ResourceCPU
	case "memory", "requests.memory", "limits.memory":
		name = corev1.ResourceMemory
	default:
		return false, "", false
	}
	return strings.HasPrefix(key, "limits."), name, true
}

// quotaLess offers to ask for what the quota has left, where one container asks for it and that is more than nothing.
func quotaLess(c *check.Case, q *corev1.ResourceQuota, key corev1.ResourceName, p *corev1.Pod) []edit.Edit {
	name := corev1.ResourceName(strings.TrimPrefix(string(key), "requests."))
	who := podspec.Requesters(p, name)
	hard, used := q.Status.Hard[key], q.Status.Used[key]
	left := hard.DeepCopy()
	left.Sub(used)
	each := left.Value() / int64(max(1, c.Like))
	if !podspec.Extended(name) || len(who) != 1 || each < 1 {
		return nil
	}
	less := func(n int64, why string) edit.Edit {
		amount := *resource.NewQuantity(n, resource.DecimalSI)
		return edit.Edit{
			Side: edit.Workload, Cost: 2, Ops: place.Asking(c, who[0], name, amount), Assumes: "the work can do with less",
			Text: fmt.Sprintf("ask for %s %s a pod, which is %s", &amount, name, why),
		}
	}
	out := []edit.Edit{less(each, "what quota "+q.Name+" has left")}
	sizes := make(map[int64]bool) // a quota may have more left than any node of the kind has
	for _, n := range c.Nodes {
		sizes[place.CouldHave(n, string(name))] = true
	}
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(sizes))) {
		if size > 0 && size < each && len(out) < 4 {
			out = append(out, less(size, "as much as one node has"))
		}
	}
	return out
}

// quotaAsked shows what the pod itself asks for of the quota's key.
func quotaAsked(c *check.Case, p *corev1.Pod, key corev1.ResourceName) (out []facts.Evidence) {
	list, name := "requests", corev1.ResourceName(strings.TrimPrefix(string(key), "requests."))
	if rest, ok := strings.CutPrefix(string(key), "limits."); ok {
		list, name = "limits", corev1.ResourceName(rest)
	}
	for _, i := range podspec.Requesters(p, name) {
		r := p.Spec.Containers[i].Resources
		q, ok := r.Requests[name]
		if list == "limits" {
			q, ok = r.Limits[name]
		}
		if ok {
			out = append(out, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].resources.%s[%q]", p.Spec.Containers[i].Name, list, name), Value: q.String()})
		}
	}
	return out[:min(len(out), 2)]
}

// fewerInQuota offers to run as many pods as the quota allows, where that is some and they need not start together.
func fewerInQuota(c *check.Case, q *corev1.ResourceQuota, p *corev1.Pod) []edit.Edit {
	if c.GangOf(p) != "" || c.Like < 1 {
		return nil
	}
	have := 0
	for _, o := range c.Children(c.Owner()) {
		if pod, ok := o.(*corev1.Pod); ok && !facts.Ended(pod) && pod.DeletionTimestamp == nil {
			have++
		}
	}
	can := have + quotaRoom(q, p, c.Like)
	if can < 1 || can >= have+c.Like {
		return nil
	}
	var out []edit.Edit
	if e := fewerPods(c, can); len(e.Set) > 0 {
		out = append(out, e)
	}
	if e, ok := place.FewerPods(c); ok { // those that the quota let in may not all have a place
		out = append(out, e)
	}
	return out
}

// fewerPods has the work run so many pods at a time; an edit of nothing where it cannot be made to.
func fewerPods(c *check.Case, can int) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Assumes: "the work can do with fewer pods at a time"}
	r := facts.RefTo(c.Top)
	count := int32(can)
	switch m := c.Owner().(type) {
	case *appsv1.StatefulSet:
		if c.Top.GetUID() != m.UID {
			return edit.Edit{}
		}
		n := m.DeepCopy()
		n.Spec.Replicas = &count
		e.Set, e.Text = []facts.Object{n}, fmt.Sprintf("scale %s to %d", r, can)
		e.Command = fmt.Sprintf("kubectl scale statefulset %s -n %s --replicas=%d", r.Name, r.Namespace, can)
	case *batchv1.Job:
		n := m.DeepCopy()
		n.Spec.Parallelism = &count
		if c.Top.GetUID() != m.UID || m.Spec.Completions != nil && m.Spec.CompletionMode != nil && *m.Spec.CompletionMode == batchv1.IndexedCompletion && *m.Spec.Completions != 1 {
			return edit.Edit{} // its pods number each other, or another object sets it
		}
		e.Set, e.Text = []facts.Object{n}, fmt.Sprintf("run %s of %s at a time", wording.Pods(can), r)
		e.Command = fmt.Sprintf("kubectl patch job %s -n %s -p '{\"spec\":{\"parallelism\":%d}}'", r.Name, r.Namespace, can)
	case *appsv1.ReplicaSet:
		n := m.DeepCopy()
		n.Spec.Replicas = &count
		e.Set = []facts.Object{n}
		if d, ok := c.Top.(*appsv1.Deployment); ok {
			n := d.DeepCopy()
			n.Spec.Replicas = &count
			e.Set = append(e.Set, n)
		} else if c.Top.GetUID() != m.UID {
			return edit.Edit{}
		}
		e.Text = fmt.Sprintf("scale %s to %d", r, can)
		e.Command = fmt.Sprintf("kubectl scale %s %s -n %s --replicas=%d", strings.ToLower(r.Kind), r.Name, r.Namespace, can)
	}
	return e
}

// quotaRoom is how many pods like this one the quota still lets in, up to most.
func quotaRoom(q *corev1.ResourceQuota, p *corev1.Pod, most int) int {
	for n := range most {
		//archtest:any-order whichever key is passed first, as many pods are let in
		for key, hard := range q.Status.Hard {
			ask, counted := podspec.QuotaAsk(p, string(key))
			if !counted || ask.IsZero() {
				continue
			}
			after := q.Status.Used[key].DeepCopy()
			for range n + 1 {
				after.Add(ask)
			}
			if after.Cmp(hard) > 0 {
				return n
			}
		}
	}
	return most
}

// quotaHolders are the owners of the namespace's pods that use most of the quota's key.
func quotaHolders(c *check.Case, key corev1.ResourceName) []facts.Evidence {
	sums := make(map[string]*resource.Quantity)
	for _, p := range c.Pods {
		ask, counted := podspec.QuotaAsk(p, string(key))
		if p.Namespace != c.Pod.Namespace || facts.Ended(p) || !counted || ask.IsZero() {
			continue
		}
		var top facts.Object = p
		for up := c.Controller(p); up != nil; up = c.Controller(up) {
			top = up
		}
		at := facts.RefTo(top).In()
		if sums[at] == nil {
			sums[at] = &resource.Quantity{}
		}
		sums[at].Add(ask)
	}
	var out []facts.Evidence
	for at, sum := range sums {
		out = append(out, facts.Evidence{Object: at, Field: string(key), Value: sum.String()})
	}
	slices.SortFunc(out, func(a, b facts.Evidence) int {
		return cmp.Or(sums[b.Object].Cmp(*sums[a.Object]), strings.Compare(a.Object, b.Object))
	})
	return out[:min(3, len(out))]
}
