package queue

import (
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

// kueueRoom is how Workloads meet the quotas of a ClusterQueue.
type kueueRoom struct {
	Fits    bool
	flavors map[string]string // by Workload and pod set, "name/main": the flavor of its devices, else of anything
	Short   *kueueShort       // the quota that comes nearest to enough; nil where no flavor matches
	Others  []kueueShort      // quotas of other flavors of its group, which are too small as well
	Missing string            // a resource that the ClusterQueue does not have
	Refused []kueueRefusal    // flavors that the pods do not match
}

// kueueShort is one quota that is too small, in the engine's units.
type kueueShort struct {
	Flavor, Resource    string
	Need, Free, Most    int64 // most: of an idle cohort
	Nominal, used       int64
	borrowing, lendable int64 // borrowingLimit, -1: none; and what the rest of the cohort has to spare
}

// kueueRefusal is why pods cannot have a flavor.
type kueueRefusal struct {
	Flavor string
	Taint  *corev1.Taint
	Key    string // of a node label
	Value  string // that the flavor has
}

// kueuePodSet is one of a Workload's.
type kueuePodSet struct {
	name  string
	count int64
	spec  corev1.PodSpec
}

// kueuePodSets reads the pod sets of a Workload. Of one that belongs to a Job or a pod, the owner's word counts: the
// Workload follows it.
func kueuePodSets(f *facts.Facts, work *unstructured.Unstructured) []kueuePodSet {
	var out []kueuePodSet
	for _, s := range dialect.Items(work.Object, "spec", "podSets") {
		set := kueuePodSet{name: dialect.Text(s, "name"), count: 1}
		if n, ok := dialect.Number(s, "count"); ok {
			set.count = n
		}
		dialect.Decode(dialect.Value(s, "template", "spec"), &set.spec)
		out = append(out, set)
	}
	if len(out) != 1 {
		return out
	}
	switch owner := f.Controller(work).(type) {
	case *corev1.Pod:
		out[0].spec = owner.Spec
	case *batchv1.Job:
		out[0].spec = owner.Spec.Template.Spec
	}
	return out
}

// kueueAssign gives every pod set the first flavor that matches and has room, as Kueue does.
func kueueAssign(f *facts.Facts, cluster *unstructured.Unstructured, works []*unstructured.Unstructured) kueueRoom {
	room := kueueRoom{Fits: true, flavors: make(map[string]string)}
	taken := make(map[string]int64) // by flavor and resource
	for _, w := range works {
		for _, set := range kueuePodSets(f, w) {
			if set.count > 0 {
				kueueAssignSet(f, &room, cluster, w.GetName(), set, taken)
			}
		}
	}
	return room
}

func kueueAssignSet(f *facts.Facts, room *kueueRoom, cluster *unstructured.Unstructured, work string, set kueuePodSet, taken map[string]int64) {
	asks := podspec.Amounts(&set.spec)
	covered := make(map[string]bool)
	for _, group := range dialect.Items(cluster.Object, "spec", "resourceGroups") {
		var names []string
		for _, name := range dialect.Strings(group, "coveredResources") {
			covered[name] = true
			if asks[name] > 0 {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		flavor := kueueChoose(f, room, cluster, group, names, asks, set, taken)
		if flavor == "" {
			room.Fits = false
			continue
		}
		for _, name := range names {
			taken[flavor+"\x00"+name] += asks[name] * set.count
			if room.flavors[work+"/"+set.name] == "" || strings.Contains(name, "/") {
				room.flavors[work+"/"+set.name] = flavor
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if asks[name] > 0 && !covered[name] && strings.Contains(name, "/") {
			room.Fits, room.Missing = false, name
		}
	}
}

// kueueChoose is the first flavor of the group that the pod set can have now; "" where there is none, and then the
// room says what came nearest.
func kueueChoose(f *facts.Facts, room *kueueRoom, cluster *unstructured.Unstructured, group map[string]any, names []string, asks map[string]int64, set kueuePodSet, taken map[string]int64) string {
	keys := kueueKeys(f, group)
	var nearest *kueueShort
	var all []kueueShort
	for _, flavor := range dialect.Items(group, "flavors") {
		name := dialect.Text(flavor, "name")
		if refusal := kueueRefuses(f, name, keys, &set.spec); refusal != nil {
			room.Refused = append(room.Refused, *refusal)
			continue
		}
		var short *kueueShort
		for _, resource := range names {
			s := kueueFree(f, cluster, name, resource)
			s.Need = asks[resource]*set.count + taken[name+"\x00"+resource]
			if s.Need > s.Free && short == nil {
				short = &s
			}
		}
		if short == nil {
			return name
		}
		all = append(all, *short)
		if nearest == nil || nearest.Need > nearest.Most && short.Need <= short.Most {
			nearest = short
		}
	}
	if room.Short == nil && nearest != nil {
		room.Short = nearest
		room.Others = slices.DeleteFunc(all, func(s kueueShort) bool { return s.Flavor == nearest.Flavor })
	}
	return ""
}

// kueueKeys are the node labels by which the flavors of a group are told apart: selectors of others do not count.
func kueueKeys(f *facts.Facts, group map[string]any) map[string]bool {
	out := make(map[string]bool)
	for _, flavor := range dialect.Items(group, "flavors") {
		if u := f.ForeignNamed(kueue.ResourceFlavors, "", dialect.Text(flavor, "name")); u != nil {
			for key := range dialect.StringMap(u.Object, "spec", "nodeLabels") {
				out[key] = true
			}
		}
	}
	return out
}

// kueueRefuses says why the pods cannot have the flavor, nil if they can.
func kueueRefuses(f *facts.Facts, flavor string, keys map[string]bool, spec *corev1.PodSpec) *kueueRefusal {
	u := f.ForeignNamed(kueue.ResourceFlavors, "", flavor)
	if u == nil {
		return nil
	}
	var taints []corev1.Taint
	var tolerations []corev1.Toleration
	dialect.Decode(dialect.Value(u.Object, "spec", "nodeTaints"), &taints)
	dialect.Decode(dialect.Value(u.Object, "spec", "tolerations"), &tolerations)
	tolerations = append(tolerations, spec.Tolerations...)
	for i := range taints {
		if t := &taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(x corev1.Toleration) bool { return podspec.Tolerates(&x, t) }) {
			return &kueueRefusal{Flavor: flavor, Taint: t}
		}
	}
	have := dialect.StringMap(u.Object, "spec", "nodeLabels")
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if keys[key] && have[key] != spec.NodeSelector[key] {
			return &kueueRefusal{Flavor: flavor, Key: key, Value: have[key]}
		}
	}
	if key := kueue.UnmetAffinity(spec, keys, have); key != "" {
		return &kueueRefusal{Flavor: flavor, Key: key}
	}
	return nil
}

// kueueFree is what the ClusterQueue can still hand out of the flavor's resource, its cohort's share included.
func kueueFree(f *facts.Facts, cluster *unstructured.Unstructured, flavor, resource string) kueueShort {
	own := KueueQuota(f, cluster, flavor, resource)
	s := kueueShort{Flavor: flavor, Resource: resource, Nominal: own.Nominal, used: own.Used, borrowing: -1}
	s.Free, s.Most = own.Nominal-own.Used, own.Nominal
	cohort := kueue.Cohort(cluster)
	if cohort == "" {
		s.Free = max(0, s.Free)
		return s
	}
	var pool, poolUsed int64
	for _, other := range f.Foreign[kueue.ClusterQueues] {
		if kueue.Cohort(other) == cohort {
			q := KueueQuota(f, other, flavor, resource)
			pool += q.Nominal - q.kept
			poolUsed += max(0, q.Used-q.kept)
		}
	}
	if u := f.ForeignNamed("Cohort.kueue.x-k8s.io", "", cohort); u != nil {
		pool += KueueQuota(f, u, flavor, resource).Nominal
	}
	spare := max(0, pool-poolUsed)
	s.lendable = spare
	s.Free, s.Most = max(0, own.kept-own.Used)+spare, own.kept+pool
	if own.borrowing >= 0 {
		s.borrowing = own.borrowing
		s.Free = min(s.Free, max(0, own.Nominal+own.borrowing-own.Used))
		s.Most = min(s.Most, own.Nominal+own.borrowing)
	}
	return s
}

// kueueQuotaOf is one quota of a ClusterQueue: kept is what it does not lend, borrowing is -1 where it is not limited.
type kueueQuotaOf struct{ Nominal, Used, kept, borrowing int64 }

// KueueQuota is what a ClusterQueue may use of a flavor's resource, and does use.
func KueueQuota(f *facts.Facts, cluster *unstructured.Unstructured, flavor, resource string) kueueQuotaOf {
	q := kueueQuotaOf{borrowing: -1}
	_, item := kueue.QuotaAt(cluster, flavor, resource)
	if item == nil {
		return q
	}
	q.Nominal, _ = podspec.AmountAt(resource, item, "nominalQuota")
	if v, ok := podspec.AmountAt(resource, item, "borrowingLimit"); ok {
		q.borrowing = v
	}
	if v, ok := podspec.AmountAt(resource, item, "lendingLimit"); ok {
		q.kept = max(0, q.Nominal-v)
	}
	q.Used = kueueUsed(f, cluster, flavor, resource)
	return q
}

// kueueUsed is what is reserved of a quota: as the ClusterQueue says, or, where it says nothing, as its Workloads do.
func kueueUsed(f *facts.Facts, cluster *unstructured.Unstructured, flavor, resource string) int64 {
	for _, fl := range dialect.Items(cluster.Object, "status", "flavorsReservation") {
		for _, r := range dialect.Items(fl, "resources") {
			if dialect.Text(fl, "name") == flavor && dialect.Text(r, "name") == resource {
				used, _ := podspec.AmountAt(resource, r, "total")
				return used
			}
		}
	}
	var used int64
	for _, h := range KueueHolders(f, cluster.GetName(), flavor, resource) {
		used += h.Amount
	}
	return used
}

// KueueHolder is a Workload that has quota.
type KueueHolder struct {
	*unstructured.Unstructured
	Amount int64
}

// KueueHolders are the Workloads that hold a quota of the ClusterQueue, the largest first.
func KueueHolders(f *facts.Facts, cluster, flavor, resource string) []KueueHolder {
	var out []KueueHolder
	for _, u := range f.Foreign[kueue.Workloads] {
		if !dialect.IsTrue(u, "QuotaReserved") || dialect.IsTrue(u, "Finished") || dialect.Text(u.Object, "status", "admission", "clusterQueue") != cluster {
			continue
		}
		var sum int64
		for _, a := range dialect.Items(u.Object, "status", "admission", "podSetAssignments") {
			if dialect.Text(a, "flavors", resource) == flavor {
				v, _ := podspec.AmountAt(resource, a, "resourceUsage", resource)
				sum += v
			}
		}
		if sum > 0 {
			out = append(out, KueueHolder{u, sum})
		}
	}
	slices.SortFunc(out, func(a, b KueueHolder) int {
		if a.Amount != b.Amount {
			return int(b.Amount - a.Amount)
		}
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return out
}

// KueueEnds is when the Workload ends at the latest: by its own time limit, or its Job's; zero where it has none.
func KueueEnds(f *facts.Facts, work *unstructured.Unstructured) time.Time {
	var end time.Time
	if s := dialect.ConditionOf(work, "Admitted"); s != nil && !s.At.IsZero() {
		if n, ok := dialect.Number(work.Object, "spec", "maximumExecutionTimeSeconds"); ok {
			end = s.At.Add(time.Duration(n) * time.Second)
		}
	}
	if j, ok := f.Controller(work).(*batchv1.Job); ok && j.Spec.ActiveDeadlineSeconds != nil && j.Status.StartTime != nil {
		t := j.Status.StartTime.Add(time.Duration(*j.Spec.ActiveDeadlineSeconds) * time.Second)
		if end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end
}

// kueueTry completes an edit with what Kueue would do after it: it counts the quotas of the edited objects and, where
// all Workloads of the target fit, has them admitted. It says no where they would still wait.
func kueueTry(c *check.Case, e edit.Edit) (edit.Edit, bool) {
	g, _, err := edit.After(c.Facts, c.Top, []edit.Edit{e})
	if err != nil {
		return e, false
	}
	top, err := g.Find(facts.RefTo(c.Top))
	if err != nil {
		return e, false
	}
	d := *c
	d.Facts, d.Top, d.All = g, top, g.PodsMadeBy(top)
	d.Owners = slices.Clone(c.Owners)
	for i, m := range d.Owners {
		if now := g.ObjectOf(m.GetUID()); now != nil {
			d.Owners[i] = now
		}
	}
	v := &KueueView{Queue: kueueQueue(&d)}
	works := kueueWaiting(&d)
	if len(works) > 0 {
		v.Work, v.Queue = works[0], dialect.Text(works[0].Object, "spec", "queueName")
	}
	v.Local = g.ForeignNamed(kueue.LocalQueues, c.Pod.Namespace, v.Queue)
	if v.Local != nil {
		v.Cluster = g.ForeignNamed(kueue.ClusterQueues, "", dialect.Text(v.Local.Object, "spec", "clusterQueue"))
	}
	if v.Cluster == nil || kueueQueues(&d, v) != "" || !kueueMeasure(&d, v) || v.Work != nil && KueueBehind(&d, v) != nil {
		return e, false
	}
	e.Set = append(slices.Clone(e.Set), kueueAdmit(c, v, e)...)
	if v.Cluster != nil && len(kueueOtherChecks(d.Facts, v.Cluster)) > 0 {
		e.Assumes = joined(e.Assumes, "admission check "+strings.Join(kueueOtherChecks(d.Facts, v.Cluster), ", ")+" agrees")
	}
	return e, true
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// kueueOtherChecks are the admission checks that come after the quota.
func kueueOtherChecks(f *facts.Facts, cluster *unstructured.Unstructured) []string {
	out := dialect.Strings(cluster.Object, "spec", "admissionChecks")
	for _, rule := range dialect.Items(cluster.Object, "spec", "admissionChecksStrategy", "admissionChecks") {
		out = append(out, dialect.Text(rule, "name"))
	}
	return out
}

// kueueAdmit is everything as Kueue leaves it on admission: Workloads with their conditions, owners not suspended, pods
// without gates, all with the labels of their flavor. The edit's operations are still to come.
func kueueAdmit(c *check.Case, v *KueueView, e edit.Edit) []facts.Object {
	var out []facts.Object
	put := func(o facts.Object) { out = append(out, o) }
	for _, w := range kueueWaiting(c) {
		u := before(c, w, e).(*unstructured.Unstructured).DeepCopy()
		u.Object["status"] = map[string]any{"conditions": []any{
			map[string]any{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": ""},
			map[string]any{"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""},
		}}
		put(u)
	}
	for _, m := range c.Facts.PodOwners(c.Top) {
		switch m := before(c, m, e).(type) {
		case *batchv1.Job:
			j := m.DeepCopy()
			j.Spec.Suspend = new(bool)
			kueueFlavored(c, &j.Spec.Template.Spec, v, m.Labels["jobset.sigs.k8s.io/replicatedjob-name"])
			put(j)
		case *unstructured.Unstructured:
			if dialect.Value(m.Object, "spec", "suspend") == true {
				put(edit.WithValues(m, map[string]any{"/spec/suspend": false}))
			} else if kueueSuspended(m) {
				put(edit.WithValues(m, map[string]any{"/spec/runPolicy/suspend": false}))
			}
		}
	}
	for _, p := range c.All {
		if facts.StateOf(p) == facts.Gated {
			n := before(c, p, e).(*corev1.Pod).DeepCopy()
			n.Spec.SchedulingGates = slices.DeleteFunc(n.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return strings.HasPrefix(g.Name, "kueue.x-k8s.io/") })
			n.Status = corev1.PodStatus{Phase: corev1.PodPending}
			kueueFlavored(c, &n.Spec, v, "")
			put(n)
		}
	}
	return out
}

// before is the object as the edit sets it, without its operations.
func before(c *check.Case, o facts.Object, e edit.Edit) facts.Object {
	for _, s := range e.Set {
		if facts.SameType(s, o) && s.GetName() == o.GetName() && s.GetNamespace() == o.GetNamespace() && s.GetUID() == o.GetUID() {
			return s
		}
	}
	return o
}

// kueueFlavored adds what the flavor of the pod set brings.
func kueueFlavored(c *check.Case, spec *corev1.PodSpec, v *KueueView, set string) {
	flavor := ""
	for _, key := range slices.Sorted(maps.Keys(v.Room.flavors)) {
		if flavor == "" || set != "" && strings.HasSuffix(key, "/"+set) {
			flavor = v.Room.flavors[key]
		}
	}
	u := c.ForeignNamed(kueue.ResourceFlavors, "", flavor)
	if u == nil {
		return
	}
	for k, value := range dialect.StringMap(u.Object, "spec", "nodeLabels") {
		if spec.NodeSelector == nil {
			spec.NodeSelector = make(map[string]string)
		}
		spec.NodeSelector[k] = value
	}
	var tolerations []corev1.Toleration
	dialect.Decode(dialect.Value(u.Object, "spec", "tolerations"), &tolerations)
	spec.Tolerations = append(spec.Tolerations, tolerations...)
}
