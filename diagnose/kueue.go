package diagnose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

// Kueue's objects, of v1beta1 and v1beta2: a Job or a pod has a Workload, which names a LocalQueue, which leads to a
// ClusterQueue, which has quotas by ResourceFlavor.
const (
	kueueWorkloads     = "Workload.kueue.x-k8s.io"
	kueueLocalQueues   = "LocalQueue.kueue.x-k8s.io"
	kueueClusterQueues = "ClusterQueue.kueue.x-k8s.io"
	kueueFlavors       = "ResourceFlavor.kueue.x-k8s.io"

	kueueQueueKey  = "kueue.x-k8s.io/queue-name"
	kueueRequired  = "kueue.x-k8s.io/podset-required-topology"
	kueuePreferred = "kueue.x-k8s.io/podset-preferred-topology"
)

// kueueView is where the target stands with Kueue: one of the causes, or "" where Kueue does not hold it back.
type kueueView struct {
	cause   why.Cause
	queue   string                     // the LocalQueue's name
	work    *unstructured.Unstructured // nil: Kueue has made none
	local   *unstructured.Unstructured
	cluster *unstructured.Unstructured
	message string // Kueue's own words, where it said something
	room    kueueRoom
}

// kueueHeld says whether the pod is held back for Kueue: by its gate, or with its owner.
func (c *Case) kueueHeld() bool {
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
func (c *Case) kueueQueue() string {
	for _, o := range append(slices.Clone(c.Owners), facts.Object(c.Pod)) {
		if q := o.GetLabels()[kueueQueueKey]; q != "" {
			return q
		}
		if q := o.GetAnnotations()[kueueQueueKey]; q != "" {
			return q
		}
	}
	return ""
}

// kueueWorks are the Workloads of the target, by name, the case's own first. A group of pods has one Workload, of the
// group's name.
func (c *Case) kueueWorks() []*unstructured.Unstructured {
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
			if u := c.ForeignNamed(kueueWorkloads, p.Namespace, group); u != nil {
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

// kueue says where the pod stands with Kueue; nil where Kueue has no part in it.
func (c *Case) kueue() *kueueView {
	if !c.kueueHeld() {
		return nil
	}
	works := c.kueueWorks()
	if len(works) == 0 && c.kueueQueue() == "" {
		return nil
	}
	v := &kueueView{queue: c.kueueQueue()}
	if len(works) > 0 {
		v.work = works[0]
		if q := dialect.Text(v.work.Object, "spec", "queueName"); q != "" {
			v.queue = q
		}
	}
	v.local = c.ForeignNamed(kueueLocalQueues, c.Pod.Namespace, v.queue)
	if v.local != nil {
		v.cluster = c.ForeignNamed(kueueClusterQueues, "", dialect.Text(v.local.Object, "spec", "clusterQueue"))
	}
	if v.work != nil && dialect.IsTrue(v.work, "Finished") {
		return nil
	}
	v.cause = c.kueueCause(v)
	return v
}

// kueueCause is which of the catalogue's causes the view is.
func (c *Case) kueueCause(v *kueueView) why.Cause {
	if dialect.IsTrue(v.work, "Admitted") {
		return "kueue-gated" // what is held back is still to be let go
	}
	if v.work != nil && dialect.Value(v.work.Object, "spec", "active") == false {
		v.message = kueueLast(v.work, "Evicted")
		if s := dialect.ConditionOf(v.work, "Evicted"); s != nil && (strings.Contains(s.Reason, "RequeuingLimitExceeded") || s.Reason == "PodsReadyTimeout") && kueuePromised(c.Facts, v.cluster) != nil {
			return "admitted-not-placeable"
		}
		return "kueue-gated"
	}
	if cause := c.kueueQueues(v); cause != "" {
		return cause
	}
	if v.work == nil {
		return "kueue-gated"
	}
	if dialect.IsTrue(v.work, "QuotaReserved") {
		return c.kueueChecks(v)
	}
	if s := dialect.ConditionOf(v.work, "QuotaReserved"); s != nil && !c.kueueEdited(v) {
		_, v.message, _ = kueueAfter(s.Message, "couldn't assign flavors to pod set ")
		cause := kueueWords(s.Reason, s.Message)
		if c.kueueBehind(v) != nil && (cause == "" || cause == "waiting-for-quota") && c.kueueMeasure(v) {
			return "behind-queue-head"
		}
		old := v.cluster != nil && (cause == why.QueueMissing || cause == "queue-stopped" || cause == why.QueueForbidden) // the queues are there, and open
		if cause != "" && !old {
			c.kueueMeasure(v)
			return cause
		}
	}
	return c.kueueCounted(v)
}

// kueueQueues is what is wrong with the queues themselves.
func (c *Case) kueueQueues(v *kueueView) why.Cause {
	if v.queue == "" {
		return "kueue-gated"
	}
	if v.local == nil {
		if c.Sees("localqueues.kueue.x-k8s.io", c.Pod.Namespace) || kueueSaysMissing(v.work) {
			return why.QueueMissing
		}
		return ""
	}
	if stop := dialect.Text(v.local.Object, "spec", "stopPolicy"); stop != "" && stop != "None" {
		return "queue-stopped"
	}
	if v.cluster == nil {
		if c.Sees("clusterqueues.kueue.x-k8s.io", "") || kueueSaysMissing(v.work) {
			return why.QueueMissing
		}
		return ""
	}
	stop := dialect.Text(v.cluster.Object, "spec", "stopPolicy")
	active := dialect.ConditionOf(v.cluster, "Active")
	if stop != "" && stop != "None" || active != nil && active.Status == "False" && active.Reason != "Stopped" {
		return "queue-stopped"
	}
	if !c.kueueOpen(v.cluster) {
		return why.QueueForbidden
	}
	return ""
}

func kueueSaysMissing(work *unstructured.Unstructured) bool {
	s := dialect.ConditionOf(work, "QuotaReserved")
	return s != nil && strings.HasSuffix(s.Message, "doesn't exist")
}

// kueueOpen says whether the ClusterQueue takes work of the pod's namespace, as far as that can be seen.
func (c *Case) kueueOpen(cluster *unstructured.Unstructured) bool {
	at := slices.IndexFunc(c.Namespaces, func(n *corev1.Namespace) bool { return n.Name == c.Pod.Namespace })
	if at < 0 {
		return true
	}
	raw := dialect.Value(cluster.Object, "spec", "namespaceSelector")
	if raw == nil {
		return false
	}
	var selector metav1.LabelSelector
	if !reshape(raw, &selector) {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(&selector)
	return err != nil || s.Matches(labels.Set(c.Namespaces[at].Labels))
}

// reshape reads a JSON tree into a Go value.
func reshape(tree, into any) bool {
	b, err := json.Marshal(tree)
	return err == nil && json.Unmarshal(b, into) == nil
}

// kueueEdited says whether what Kueue said was about other objects than these.
func (c *Case) kueueEdited(v *kueueView) bool {
	for _, u := range []*unstructured.Unstructured{v.work, v.local, v.cluster} {
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
		return "queue-stopped"
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
func (c *Case) kueueChecks(v *kueueView) why.Cause {
	for _, s := range dialect.Items(v.work.Object, "status", "admissionChecks") {
		if dialect.Text(s, "state") == "Ready" {
			continue
		}
		v.message = dialect.Text(s, "message")
		if c.kueueProvisions(dialect.Text(s, "name")) || provisioningOf(c.Facts, v.work) != nil {
			return "capacity-queued"
		}
	}
	return "kueue-gated"
}

// kueueProvisions says whether the admission check asks an autoscaler for machines.
func (c *Case) kueueProvisions(check string) bool {
	u := c.ForeignNamed("AdmissionCheck.kueue.x-k8s.io", "", check)
	return u != nil && dialect.Text(u.Object, "spec", "controllerName") == "kueue.x-k8s.io/provisioning-request"
}

// provisioningOf is the ProvisioningRequest that was made for the object, nil for none.
func provisioningOf(f *facts.Facts, o facts.Object) *unstructured.Unstructured {
	for _, u := range f.Foreign["ProvisioningRequest.autoscaling.x-k8s.io"] {
		if u.GetNamespace() == o.GetNamespace() && slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == o.GetUID() }) {
			return u
		}
	}
	return nil
}

// kueueMeasure counts the quota, where it can be seen, and says whether the work fits into it now.
func (c *Case) kueueMeasure(v *kueueView) bool {
	if v.cluster == nil {
		return false
	}
	v.room = kueueAssign(c.Facts, v.cluster, c.kueueWaiting())
	return v.room.fits
}

// kueueWaiting are the Workloads of the target that hold no quota.
func (c *Case) kueueWaiting() []*unstructured.Unstructured {
	return slices.DeleteFunc(c.kueueWorks(), func(u *unstructured.Unstructured) bool {
		return dialect.IsTrue(u, "QuotaReserved") || dialect.IsTrue(u, "Finished")
	})
}

// kueueCounted is the cause by the objects alone, where Kueue has not spoken, or spoke of others.
func (c *Case) kueueCounted(v *kueueView) why.Cause {
	if v.cluster == nil {
		return "kueue-gated"
	}
	if c.kueueMeasure(v) {
		if c.kueueBehind(v) != nil {
			return "behind-queue-head"
		}
		return "kueue-gated"
	}
	switch {
	case v.room.short == nil:
		return "no-matching-flavor"
	case v.room.short.need > v.room.short.most:
		return why.ExceedsQueueMaximum
	}
	return "waiting-for-quota"
}

// kueueBehind is the Workload at the head of a ClusterQueue that keeps strictly to its order, where that is another's.
func (c *Case) kueueBehind(v *kueueView) *unstructured.Unstructured {
	if v.cluster == nil || dialect.Text(v.cluster.Object, "spec", "queueingStrategy") != "StrictFIFO" {
		return nil
	}
	mine := c.kueueWorks()
	head := v.work
	for _, u := range c.Foreign[kueueWorkloads] {
		if dialect.IsTrue(u, "QuotaReserved") || dialect.IsTrue(u, "Finished") || dialect.Value(u.Object, "spec", "active") == false || slices.Contains(mine, u) {
			continue
		}
		local := c.ForeignNamed(kueueLocalQueues, u.GetNamespace(), dialect.Text(u.Object, "spec", "queueName"))
		if local != nil && dialect.Text(local.Object, "spec", "clusterQueue") == v.cluster.GetName() && kueueBefore(u, head) {
			head = u
		}
	}
	if head == v.work {
		return nil
	}
	return head
}

// kueueBefore says whether Kueue takes a before b: by priority, then by age.
func kueueBefore(a, b *unstructured.Unstructured) bool {
	pa, _ := dialect.Number(a.Object, "spec", "priority")
	pb, _ := dialect.Number(b.Object, "spec", "priority")
	if pa != pb {
		return pa > pb
	}
	ta, tb := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !ta.Equal(&tb) {
		return ta.Before(&tb)
	}
	return a.GetName() < b.GetName()
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

// kueueLast is what the Workload's condition says, or its reason where it says nothing.
func kueueLast(work *unstructured.Unstructured, kind string) string {
	s := dialect.ConditionOf(work, kind)
	switch {
	case s == nil:
		return ""
	case s.Message != "":
		return s.Message
	}
	return s.Reason
}

// evidence is the condition of the Workload that says why it waits.
func (v *kueueView) evidence() []facts.Evidence {
	if v.work == nil {
		return nil
	}
	s := dialect.ConditionOf(v.work, "QuotaReserved")
	if s == nil {
		return []facts.Evidence{{Object: facts.RefTo(v.work).In(), Field: "spec.queueName", Value: v.queue}}
	}
	return []facts.Evidence{{Object: facts.RefTo(v.work).In(), Field: `status.conditions["QuotaReserved"]`, Value: fmt.Sprintf("%s: %s", s.Reason, s.Message)}}
}

// flavorEvidence is a quota of the ClusterQueue.
func (v *kueueView) quotaEvidence() []facts.Evidence {
	s := v.room.short
	if s == nil {
		return v.evidence()
	}
	return append(v.evidence(), facts.Evidence{Object: facts.RefTo(v.cluster).In(), Field: fmt.Sprintf("spec.resourceGroups.flavors[%q].resources[%q].nominalQuota", s.flavor, s.resource), Value: why.Quantity(s.resource, s.nominal)})
}

// kueueStop is a queue that may be stopped.
type kueueStop struct {
	u    *unstructured.Unstructured
	name string
}
