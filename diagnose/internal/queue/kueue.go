package queue

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

// KueueView is where the target stands with Kueue: one of the causes, or "" where Kueue does not hold it back.
type KueueView struct {
	Cause   why.Cause
	Queue   string                     // the LocalQueue's name
	Work    *unstructured.Unstructured // nil: Kueue has made none
	Local   *unstructured.Unstructured
	Cluster *unstructured.Unstructured
	Message string // Kueue's own words, where it said something
	Room    kueueRoom
}

// kueueHeld says whether the pod is held back for Kueue: by its gate, or with its owner.
func kueueHeld(c *check.Case) bool {
	if c.State == facts.Gated {
		return slices.ContainsFunc(c.Pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return strings.HasPrefix(g.Name, "kueue.x-k8s.io/") })
	}
	if c.State != facts.Absent || c.Exists {
		return false
	}
	_, isWorkload := c.Top.(*unstructured.Unstructured)
	return slices.ContainsFunc(c.Owners, kueueSuspended) || isWorkload && facts.RefTo(c.Top).Kind == "Workload"
}

// kueueSuspended says whether the object says so of itself.
func kueueSuspended(o facts.Object) bool {
	switch o := o.(type) {
	case *batchv1.Job:
		return ptr.Deref(o.Spec.Suspend, false)
	case *unstructured.Unstructured:
		return dialect.Value(o.Object, "spec", "suspend") == true || dialect.Value(o.Object, "spec", "runPolicy", "suspend") == true
	}
	return false
}

// kueueQueue is the LocalQueue that the target names, "" for none.
func kueueQueue(c *check.Case) string {
	for _, o := range append(slices.Clone(c.Owners), facts.Object(c.Pod)) {
		if q := o.GetLabels()[kueue.QueueLabel]; q != "" {
			return q
		}
		if q := o.GetAnnotations()[kueue.QueueLabel]; q != "" {
			return q
		}
	}
	return ""
}

// KueueWorks are the Workloads of the target, by name, the case's own first. A group of pods has one Workload, of the
// group's name.
func KueueWorks(c *check.Case) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	add := func(objects ...facts.Object) {
		for _, o := range objects {
			if u, ok := o.(*unstructured.Unstructured); ok && facts.KindOfObject(u) != nil && facts.KindOfObject(u).Name() == "workloads.kueue.x-k8s.io" && !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
	}
	of := func(p *corev1.Pod) {
		add(c.Children(p)...)
		if group := p.Labels["kueue.x-k8s.io/pod-group-name"]; group != "" {
			if u := c.ForeignNamed(kueue.Workloads, p.Namespace, group); u != nil {
				add(u)
			}
		}
	}
	for _, m := range append([]facts.Object{c.Top}, c.Owners...) {
		add(m)
		add(c.Children(m)...)
	}
	if c.Exists {
		of(c.Pod)
	}
	own := len(out)
	for _, p := range c.All {
		of(p)
	}
	byName := func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) }
	slices.SortFunc(out[:own], byName)
	slices.SortFunc(out[own:], byName)
	return out
}

// Kueue says where the pod stands with Kueue; nil where Kueue has no part in it.
func Kueue(c *check.Case) *KueueView {
	if !kueueHeld(c) {
		return nil
	}
	works := KueueWorks(c)
	if len(works) == 0 && kueueQueue(c) == "" {
		return nil
	}
	v := &KueueView{Queue: kueueQueue(c)}
	if len(works) > 0 {
		v.Work = works[0]
		if q := dialect.Text(v.Work.Object, "spec", "queueName"); q != "" {
			v.Queue = q
		}
	}
	v.Local = c.ForeignNamed(kueue.LocalQueues, c.Pod.Namespace, v.Queue)
	if v.Local != nil {
		v.Cluster = c.ForeignNamed(kueue.ClusterQueues, "", dialect.Text(v.Local.Object, "spec", "clusterQueue"))
	}
	if v.Work != nil && dialect.IsTrue(v.Work, "Finished") {
		if s := dialect.ConditionOf(v.Work, "Finished"); !slices.Contains(kueueEnds, s.Reason) {
			return nil
		}
		v.Cause = "kueue-gated"
		return v
	}
	v.Cause = kueueCause(c, v)
	return v
}

// kueueEnds are the reasons for which Kueue ends a Workload whose work has not started and never will (Kueue v0.20:
// apis/kueue/v1beta2/workload_types.go, pkg/controller/jobframework/reconciler.go).
var kueueEnds = []string{"FailedToStart", "AdmissionChecksRejected", "OutOfSync", "OwnerNotFound"}

// kueueCause is which of the catalogue's causes the view is.
func kueueCause(c *check.Case, v *KueueView) why.Cause {
	if dialect.IsTrue(v.Work, "Admitted") {
		return "kueue-gated" // what is held back is still to be let go
	}
	if v.Work != nil && dialect.Value(v.Work.Object, "spec", "active") == false {
		v.Message = kueue.LastMessage(v.Work, "Evicted")
		if s := dialect.ConditionOf(v.Work, "Evicted"); s != nil && (strings.Contains(s.Reason, "RequeuingLimitExceeded") || s.Reason == "PodsReadyTimeout") && KueuePromised(c.Facts, v.Cluster) != nil {
			return "admitted-not-placeable"
		}
		return "kueue-gated"
	}
	if cause := kueueQueues(c, v); cause != "" {
		return cause
	}
	if v.Work == nil {
		return "kueue-gated"
	}
	if dialect.IsTrue(v.Work, "QuotaReserved") {
		return kueueChecks(c, v)
	}
	if kueueLostMachines(c, v) {
		return "capacity-queued"
	}
	if s := dialect.ConditionOf(v.Work, "QuotaReserved"); s != nil && !kueueEdited(c, v) {
		_, v.Message, _ = kueueAfter(s.Message, "couldn't assign flavors to pod set ")
		cause := kueueWords(s.Reason, s.Message)
		if KueueBehind(c, v) != nil && (cause == "" || cause == "waiting-for-quota") && kueueMeasure(c, v) {
			return "behind-queue-head"
		}
		old := v.Cluster != nil && (cause == why.QueueMissing || cause == why.QueueStopped || cause == why.QueueForbidden) // the queues are there, and open
		if cause != "" && !old {
			kueueMeasure(c, v)
			return cause
		}
	}
	return kueueCounted(c, v)
}

// kueueQueues is what is wrong with the queues themselves.
func kueueQueues(c *check.Case, v *KueueView) why.Cause {
	if v.Queue == "" {
		return "kueue-gated"
	}
	if v.Local == nil {
		if c.Sees("localqueues.kueue.x-k8s.io", c.Pod.Namespace) || kueue.SaysQueueMissing(v.Work) {
			return why.QueueMissing
		}
		return ""
	}
	if stop := dialect.Text(v.Local.Object, "spec", "stopPolicy"); stop != "" && stop != "None" {
		return why.QueueStopped
	}
	if v.Cluster == nil {
		if c.Sees("clusterqueues.kueue.x-k8s.io", "") || kueue.SaysQueueMissing(v.Work) {
			return why.QueueMissing
		}
		return ""
	}
	stop := dialect.Text(v.Cluster.Object, "spec", "stopPolicy")
	active := dialect.ConditionOf(v.Cluster, "Active")
	if stop != "" && stop != "None" || active != nil && active.Status == "False" && active.Reason != "Stopped" {
		return why.QueueStopped
	}
	if !kueueOpen(c, v.Cluster) {
		return why.QueueForbidden
	}
	return ""
}

// kueueOpen says whether the ClusterQueue takes work of the pod's namespace, as far as that can be seen.
func kueueOpen(c *check.Case, cluster *unstructured.Unstructured) bool {
	at := slices.IndexFunc(c.Namespaces, func(n *corev1.Namespace) bool { return n.Name == c.Pod.Namespace })
	if at < 0 {
		return true
	}
	raw := dialect.Value(cluster.Object, "spec", "namespaceSelector")
	if raw == nil {
		return false
	}
	var selector metav1.LabelSelector
	if !dialect.Decode(raw, &selector) {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err != nil || s.Matches(labels.Set(c.Namespaces[at].Labels))
}

// kueueEdited says whether what Kueue said was about other objects than these.
func kueueEdited(c *check.Case, v *KueueView) bool {
	for _, u := range []*unstructured.Unstructured{v.Work, v.Local, v.Cluster} {
		if u != nil && c.WasEdited(u) {
			return true
		}
	}
	return false
}

// kueueWords reads Kueue's reason and message. Releases before 0.19 say "Pending" for most, so the message counts too.
// Of several flavors that each say something else, the one that leaves most hope counts.
func kueueWords(reason, message string) why.Cause {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(message, w) })
	}
	switch {
	case strings.HasSuffix(message, "doesn't exist"):
		return why.QueueMissing
	case reason == "Suspended", strings.HasSuffix(message, " is stopped"), strings.HasSuffix(message, " is inactive"):
		return why.QueueStopped
	case has("namespace doesn't match ClusterQueue selector"):
		return why.QueueForbidden
	case has("no requested topology level"):
		return why.UnknownTopologyLevel
	case reason == "WaitingForPreemptedWorkloads", has("Pending the preemption of"):
		return "preemption-in-progress"
	case reason == "TopologyPlacementFailed", has(" allows to fit only ", "doesn't allow to fit any"):
		return why.TopologyFragmented
	case reason == "WaitingForQuota", reason != "ExceedsMaxQuota" && has("insufficient unused quota"):
		return "waiting-for-quota"
	case reason == "ExceedsMaxQuota", has("> maximum capacity", "insufficient quota for"):
		return why.ExceedsQueueMaximum
	case reason == "NoMatchingFlavor", has("untolerated taint", "doesn't match node affinity", "unavailable in ClusterQueue"):
		return "no-matching-flavor"
	}
	return ""
}

// kueueChecks is for work that has its quota and waits for admission checks.
func kueueChecks(c *check.Case, v *KueueView) why.Cause {
	for _, s := range dialect.Items(v.Work.Object, "status", "admissionChecks") {
		if dialect.Text(s, "state") == "Ready" {
			continue
		}
		v.Message = dialect.Text(s, "message")
		if kueueProvisions(c, dialect.Text(s, "name")) || ProvisioningOf(c.Facts, v.Work) != nil {
			return "capacity-queued"
		}
	}
	return "kueue-gated"
}

// kueueLostMachines says whether the work was put back because the machines that an admission check asked for did not come, and
// its quota is free: it is machines that it waits for.
func kueueLostMachines(c *check.Case, v *KueueView) bool {
	for _, s := range dialect.Items(v.Work.Object, "status", "admissionChecks") {
		state, message := dialect.Text(s, "state"), dialect.Text(s, "message")
		again := state == "Retry" || state == "Rejected" || state == "Pending" && strings.Contains(message, "Previously:")
		if again && kueueProvisions(c, dialect.Text(s, "name")) && kueueMeasure(c, v) {
			v.Message = message
			return true
		}
	}
	return false
}

// kueueProvisions says whether the admission check asks an autoscaler for machines.
func kueueProvisions(c *check.Case, k string) bool {
	u := c.ForeignNamed("AdmissionCheck.kueue.x-k8s.io", "", k)
	return u != nil && dialect.Text(u.Object, "spec", "controllerName") == "kueue.x-k8s.io/provisioning-request"
}

// ProvisioningOf is the ProvisioningRequest that was made for the object, nil for none.
func ProvisioningOf(f *facts.Facts, o facts.Object) *unstructured.Unstructured {
	for _, u := range f.Foreign["ProvisioningRequest.autoscaling.x-k8s.io"] {
		if u.GetNamespace() == o.GetNamespace() && slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
			return u
		}
	}
	return nil
}

// kueueMeasure counts the quota, where it can be seen, and says whether the work fits into it now.
func kueueMeasure(c *check.Case, v *KueueView) bool {
	if v.Cluster == nil {
		return false
	}
	v.Room = kueueAssign(c.Facts, v.Cluster, kueueWaiting(c))
	return v.Room.Fits
}

// kueueWaiting are the Workloads of the target that hold no quota.
func kueueWaiting(c *check.Case) []*unstructured.Unstructured {
	return slices.DeleteFunc(KueueWorks(c), func(u *unstructured.Unstructured) bool {
		return dialect.IsTrue(u, "QuotaReserved") || dialect.IsTrue(u, "Finished")
	})
}

// kueueCounted is the cause by the objects alone, where Kueue has not spoken, or spoke of others.
func kueueCounted(c *check.Case, v *KueueView) why.Cause {
	if v.Cluster == nil {
		return "kueue-gated"
	}
	if kueueMeasure(c, v) {
		if KueueBehind(c, v) != nil {
			return "behind-queue-head"
		}
		return "kueue-gated"
	}
	switch {
	case v.Room.Short == nil:
		return "no-matching-flavor"
	case v.Room.Short.Need > v.Room.Short.Most:
		return why.ExceedsQueueMaximum
	}
	return "waiting-for-quota"
}

// KueueBehind is the Workload at the head of a ClusterQueue that keeps strictly to its order, where that is another's.
func KueueBehind(c *check.Case, v *KueueView) *unstructured.Unstructured {
	if v.Cluster == nil || dialect.Text(v.Cluster.Object, "spec", "queueingStrategy") != "StrictFIFO" {
		return nil
	}
	mine := KueueWorks(c)
	head := v.Work
	for _, u := range c.Foreign[kueue.Workloads] {
		if dialect.IsTrue(u, "QuotaReserved") || dialect.IsTrue(u, "Finished") || dialect.Value(u.Object, "spec", "active") == false || slices.Contains(mine, u) {
			continue
		}
		local := c.ForeignNamed(kueue.LocalQueues, u.GetNamespace(), dialect.Text(u.Object, "spec", "queueName"))
		if local != nil && dialect.Text(local.Object, "spec", "clusterQueue") == v.Cluster.GetName() && kueue.Before(u, head) {
			head = u
		}
	}
	if head == v.Work {
		return nil
	}
	return head
}

// kueueAfter is the text after the name and the colon that follow the words, or the whole text without them.
func kueueAfter(text, words string) (name, after string, found bool) {
	if _, rest, ok := strings.Cut(text, words); ok {
		if name, after, ok := strings.Cut(rest, ": "); ok {
			return name, after, true
		}
	}
	return "", text, false
}

// Evidence is the condition of the Workload that says why it waits.
func (v *KueueView) Evidence() []facts.Evidence {
	if v.Work == nil {
		return nil
	}
	s := dialect.ConditionOf(v.Work, "QuotaReserved")
	if s == nil {
		return []facts.Evidence{{Object: facts.RefTo(v.Work).In(), Field: "spec.queueName", Value: v.Queue}}
	}
	return []facts.Evidence{{Object: facts.RefTo(v.Work).In(), Field: `status.conditions["QuotaReserved"]`, Value: fmt.Sprintf("%s: %s", s.Reason, s.Message)}}
}

// flavorEvidence is a quota of the ClusterQueue.
func (v *KueueView) quotaEvidence() []facts.Evidence {
	s := v.Room.Short
	if s == nil {
		return v.Evidence()
	}
	return append(v.Evidence(), facts.Evidence{Object: facts.RefTo(v.Cluster).In(), Field: fmt.Sprintf("spec.resourceGroups.flavors[%q].resources[%q].nominalQuota", s.Flavor, s.Resource), Value: why.Quantity(s.Resource, s.Nominal)})
}

// KueueStop is a queue that may be stopped.
type KueueStop struct {
	U    *unstructured.Unstructured
	Name string
}

// Queued says whether Kueue has a say in the owners: it names a queue, or has a Workload.
func Queued(c *check.Case) bool {
	const label = "kueue.x-k8s.io/queue-name"
	for _, m := range c.Owners {
		if m.GetLabels()[label] != "" || m.GetAnnotations()[label] != "" {
			return true
		}
		for _, o := range c.Children(m) {
			if k := facts.KindOfObject(o); k != nil && k.Kind == "Workload" && k.Group == "kueue.x-k8s.io" {
				return true
			}
		}
		for _, w := range c.Foreign["Workload.kueue.x-k8s.io"] {
			for _, r := range w.GetOwnerReferences() {
				if r.UID == m.GetUID() {
					return true
				}
			}
		}
	}
	return false
}
