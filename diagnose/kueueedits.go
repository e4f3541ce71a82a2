package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
)

// Edits for work that Kueue holds back. Each comes with what Kueue would do after it, and only if by its quotas it
// would admit the work: see kueueTry.

// kueueRaise raises nominal quotas of the ClusterQueue until the work fits.
func (c *Case) kueueRaise(v *kueueView) []edit.Edit {
	e := edit.Edit{Side: edit.Cluster, Cost: 3}
	f, cluster := c.Facts, v.cluster
	from, to := make(map[string]*kueueShort), make(map[string]string) // by path
	for range 32 {
		room := kueueAssign(f, cluster, c.kueueWaiting())
		s := room.short
		if room.fits || s == nil {
			break
		}
		path, _ := kueueQuotaAt(cluster, s.flavor, s.resource)
		if from[path] == nil {
			from[path] = s
		}
		to[path] = why.Quantity(s.resource, s.nominal+s.need-s.free)
		cluster = edit.WithValues(cluster, map[string]any{path + "/nominalQuota": to[path]})
		g, _, err := edit.After(c.Facts, c.Top, []edit.Edit{{Set: []facts.Object{cluster}}})
		if err != nil {
			return nil
		}
		f = g
	}
	var texts []string
	var ops []edit.Op
	for _, path := range slices.Sorted(maps.Keys(from)) {
		s := from[path]
		texts = append(texts, fmt.Sprintf("raise the quota of %s in flavor %s of ClusterQueue %s from %s to %s", s.resource, s.flavor, cluster.GetName(), why.Quantity(s.resource, s.nominal), to[path]))
		ops = append(ops, edit.Op{Op: "replace", Path: path + "/nominalQuota", Value: to[path]})
	}
	if len(ops) == 0 {
		return nil
	}
	e.Text, e.Set, e.Command = strings.Join(texts, "; and "), []facts.Object{cluster}, edit.PatchLine(cluster, "json", ops)
	return c.kueueOnly(e)
}

// kueueBorrow raises the borrowing limit, where the rest of the cohort has enough to spare.
func (c *Case) kueueBorrow(v *kueueView) []edit.Edit {
	s := v.room.short
	if s == nil || s.borrowing < 0 || s.lendable < s.need {
		return nil
	}
	path, _ := kueueQuotaAt(v.cluster, s.flavor, s.resource)
	limit := why.Quantity(s.resource, s.used+s.need-s.nominal)
	e := edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: []facts.Object{edit.WithValues(v.cluster, map[string]any{path + "/borrowingLimit": limit})},
		Text:    fmt.Sprintf("let ClusterQueue %s borrow %s of %s in flavor %s from its cohort, instead of %s", v.cluster.GetName(), limit, s.resource, s.flavor, why.Quantity(s.resource, s.borrowing)),
		Command: edit.PatchLine(v.cluster, "json", []edit.Op{{Op: "replace", Path: path + "/borrowingLimit", Value: limit}}),
	}
	return c.kueueOnly(e)
}

// kueueOnly is the edit alone, completed, or nothing where Kueue would still hold the work back.
func (c *Case) kueueOnly(edits ...edit.Edit) []edit.Edit {
	var out []edit.Edit
	for _, e := range edits {
		if done, ok := c.kueueTry(e); ok {
			out = append(out, done)
		}
	}
	return out
}

// kueueElsewhere moves the target to other LocalQueues of the namespace, those with the most alike names first.
func (c *Case) kueueElsewhere(v *kueueView) []edit.Edit {
	var out []edit.Edit
	for _, name := range spelling.ByLikeness(v.queue, c.ForeignNames(kueueLocalQueues, c.Pod.Namespace)) {
		if name != v.queue && len(out) < 2 {
			out = append(out, c.kueueOnly(c.kueueRequeue(v, name))...)
		}
	}
	return out
}

// kueueRequeue names another LocalQueue on what the person wrote; Kueue carries it on to Workloads and pods.
func (c *Case) kueueRequeue(v *kueueView, name string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("name LocalQueue %s instead of %s", name, cmp.Or(v.queue, "none"))}
	relabel := func(o facts.Object) facts.Object {
		n := o.DeepCopyObject().(facts.Object)
		labels := map[string]string{kueueQueueKey: name}
		for k, v := range n.GetLabels() {
			if k != kueueQueueKey {
				labels[k] = v
			}
		}
		n.SetLabels(labels)
		return n
	}
	for _, w := range c.kueueWaiting() {
		e.Set = append(e.Set, edit.WithValues(w, map[string]any{"/spec/queueName": name}))
	}
	if p, ok := c.Top.(*corev1.Pod); ok {
		e.Ops = []edit.Op{{Op: "add", Path: edit.Pointer("metadata", "labels", kueueQueueKey), Value: name}}
		if len(p.Labels) == 0 {
			e.Ops[0] = c.putLabel(kueueQueueKey, name)
		}
		return e
	}
	e.Set = append(e.Set, relabel(c.Top))
	e.Command = fmt.Sprintf("kubectl label %s %s -n %s %s=%s --overwrite", facts.KindOfObject(c.Top).Name(), c.Top.GetName(), c.Top.GetNamespace(), kueueQueueKey, name)
	return e
}

// kueueAskLess lowers what each pod asks for to what the quota has left.
func (c *Case) kueueAskLess(v *kueueView) []edit.Edit {
	s := v.room.short
	if s == nil || s.free <= 0 {
		return nil
	}
	var pods, each int64
	for _, w := range c.kueueWaiting() {
		for _, set := range kueuePodSets(c.Facts, w) {
			if n := podspec.Amounts(&set.spec)[s.resource]; n > 0 {
				pods, each = pods+set.count, max(each, n)
			}
		}
	}
	if pods == 0 || s.free/pods == 0 {
		return c.kueueFewer(v)
	}
	op, ok := c.askLess(s.resource, s.free/pods)
	if !ok {
		return nil
	}
	less := why.Quantity(s.resource, s.free/pods)
	return append(c.kueueOnly(edit.Edit{Side: edit.Workload, Cost: 2, Ops: []edit.Op{op}, Text: fmt.Sprintf("ask for %s %s per pod instead of %s", less, s.resource, why.Quantity(s.resource, each))}), c.kueueFewer(v)...)
}

// kueueFewer has a Job run fewer pods at a time.
func (c *Case) kueueFewer(v *kueueView) []edit.Edit {
	j, ok := c.Top.(*batchv1.Job)
	s := v.room.short
	if !ok || v.work == nil || len(kueuePodSets(c.Facts, v.work)) != 1 {
		return nil
	}
	each := podspec.Amounts(&j.Spec.Template.Spec)[s.resource]
	if each == 0 || s.free/each == 0 || s.free/each >= int64(ptr.Deref(j.Spec.Parallelism, 1)) {
		return nil
	}
	n := int32(s.free / each)
	fewer := j.DeepCopy()
	fewer.Spec.Parallelism = &n
	return c.kueueOnly(edit.Edit{
		Side: edit.Workload, Cost: 2, Set: []facts.Object{fewer, edit.WithValues(v.work, map[string]any{"/spec/podSets/0/count": int64(n)})},
		Text:    fmt.Sprintf("run %s at a time instead of %d", kueueCount(n), ptr.Deref(j.Spec.Parallelism, 1)),
		Command: edit.PatchLine(j, "merge", map[string]any{"spec": map[string]any{"parallelism": n}}),
		Assumes: "the job can work with fewer pods at a time",
	})
}

func kueueCount(pods int32) string {
	if pods == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", pods)
}

// kueueRelief is what helps against too little quota.
func (c *Case) kueueRelief(v *kueueView) []edit.Edit {
	if v.cluster == nil || v.room.short == nil {
		return nil
	}
	return slices.Concat(c.kueueElsewhere(v), c.kueueAskLess(v), c.kueueBorrow(v), c.kueueRaise(v))
}

// kueueFound is the finding of a view: the sentence of Kueue itself where there is no better one.
func (v *kueueView) found(message string, edits []edit.Edit) []Finding {
	if v.message != "" && v.room.short == nil {
		message += ": " + strings.TrimSuffix(v.message, ".")
	}
	return []Finding{{Message: message, Evidence: v.quotaEvidence(), Edits: edits}}
}

// name is the ClusterQueue's, or the LocalQueue's where that is all that can be seen.
func (v *kueueView) name() string {
	if v.cluster != nil {
		return "ClusterQueue " + v.cluster.GetName()
	}
	if v.local != nil {
		return "ClusterQueue " + dialect.Text(v.local.Object, "spec", "clusterQueue")
	}
	return "LocalQueue " + v.queue
}

// kueueNew is an object of Kueue in the version that the others have.
func kueueNew(f *facts.Facts, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	version := "kueue.x-k8s.io/" + facts.KindOf("kueue.x-k8s.io", kind).Version
	for _, key := range []string{kueueLocalQueues, kueueClusterQueues, kueueWorkloads} {
		for _, u := range f.Foreign[key] {
			version = u.GetAPIVersion()
		}
	}
	meta := map[string]any{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}}
}
