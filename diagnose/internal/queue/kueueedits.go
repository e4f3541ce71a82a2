package queue

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

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

// Edits for work that Kueue holds back. Each comes with what Kueue would do after it, and only if by its quotas it
// would admit the work: see kueueTry.

// kueueRaise raises nominal quotas of the ClusterQueue until the work fits.
func kueueRaise(c *check.Case, v *KueueView) []edit.Edit {
	e := edit.Edit{Side: edit.Cluster, Cost: 3}
	f, cluster := c.Facts, v.Cluster
	from, to := make(map[string]*kueueShort), make(map[string]string) // by path
	for range 32 {
		room := kueueAssign(f, cluster, kueueWaiting(c))
		s := room.Short
		if room.Fits || s == nil {
			break
		}
		path, _ := kueue.QuotaAt(cluster, s.Flavor, s.Resource)
		if from[path] == nil {
			from[path] = s
		}
		to[path] = why.Quantity(s.Resource, s.Nominal+s.Need-s.Free)
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
		texts = append(texts, fmt.Sprintf("raise the quota of %s in flavor %s of ClusterQueue %s from %s to %s", s.Resource, s.Flavor, cluster.GetName(), why.Quantity(s.Resource, s.Nominal), to[path]))
		ops = append(ops, edit.Op{Op: "replace", Path: path + "/nominalQuota", Value: to[path]})
	}
	if len(ops) == 0 {
		return nil
	}
	e.Text, e.Set, e.Command = strings.Join(texts, "; and "), []facts.Object{cluster}, edit.PatchLine(cluster, "json", ops)
	return KueueOnly(c, e)
}

// kueueBorrow raises the borrowing limit, where the rest of the cohort has enough to spare.
func kueueBorrow(c *check.Case, v *KueueView) []edit.Edit {
	s := v.Room.Short
	if s == nil || s.borrowing < 0 || s.lendable < s.Need {
		return nil
	}
	path, _ := kueue.QuotaAt(v.Cluster, s.Flavor, s.Resource)
	limit := why.Quantity(s.Resource, s.used+s.Need-s.Nominal)
	e := edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: []facts.Object{edit.WithValues(v.Cluster, map[string]any{path + "/borrowingLimit": limit})},
		Text:    fmt.Sprintf("let ClusterQueue %s borrow %s of %s in flavor %s from its cohort, instead of %s", v.Cluster.GetName(), limit, s.Resource, s.Flavor, why.Quantity(s.Resource, s.borrowing)),
		Command: edit.PatchLine(v.Cluster, "json", []edit.Op{{Op: "replace", Path: path + "/borrowingLimit", Value: limit}}),
	}
	return KueueOnly(c, e)
}

// KueueOnly is the edit alone, completed, or nothing where Kueue would still hold the work back.
func KueueOnly(c *check.Case, edits ...edit.Edit) []edit.Edit {
	var out []edit.Edit
	for _, e := range edits {
		if done, ok := kueueTry(c, e); ok {
			out = append(out, done)
		}
	}
	return out
}

// KueueElsewhere moves the target to other LocalQueues of the namespace, those with the most alike names first.
func KueueElsewhere(c *check.Case, v *KueueView) []edit.Edit {
	var out []edit.Edit
	for _, name := range spelling.ByLikeness(v.Queue, c.ForeignNames(kueue.LocalQueues, c.Pod.Namespace)) {
		if name != v.Queue && len(out) < 2 {
			out = append(out, KueueOnly(c, kueueRequeue(c, v, name))...)
		}
	}
	return out
}

// kueueRequeue names another LocalQueue on what the person wrote; Kueue carries it on to Workloads and pods.
func kueueRequeue(c *check.Case, v *KueueView, name string) edit.Edit {
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("name LocalQueue %s instead of %s", name, cmp.Or(v.Queue, "none"))}
	relabel := func(o facts.Object) facts.Object {
		n := o.DeepCopyObject().(facts.Object)
		labels := map[string]string{kueue.QueueLabel: name}
		for k, v := range n.GetLabels() {
			if k != kueue.QueueLabel {
				labels[k] = v
			}
		}
		n.SetLabels(labels)
		return n
	}
	for _, w := range kueueWaiting(c) {
		e.Set = append(e.Set, edit.WithValues(w, map[string]any{"/spec/queueName": name}))
	}
	if p, ok := c.Top.(*corev1.Pod); ok {
		e.Ops = []edit.Op{{Op: "add", Path: edit.Pointer("metadata", "labels", kueue.QueueLabel), Value: name}}
		if len(p.Labels) == 0 {
			e.Ops[0] = place.PutLabel(c, kueue.QueueLabel, name)
		}
		return e
	}
	e.Set = append(e.Set, relabel(c.Top))
	e.Command = fmt.Sprintf("kubectl label %s %s -n %s %s=%s --overwrite", facts.KindOfObject(c.Top).Name(), c.Top.GetName(), c.Top.GetNamespace(), kueue.QueueLabel, name)
	return e
}

// kueueAskLess lowers what each pod asks for to what the quota has left.
func kueueAskLess(c *check.Case, v *KueueView) []edit.Edit {
	s := v.Room.Short
	if s == nil || s.Free <= 0 {
		return nil
	}
	var pods, each int64
	for _, w := range kueueWaiting(c) {
		for _, set := range kueuePodSets(c.Facts, w) {
			if n := podspec.Amounts(&set.spec)[s.Resource]; n > 0 {
				pods, each = pods+set.count, max(each, n)
			}
		}
	}
	if pods == 0 || s.Free/pods == 0 {
		return kueueFewer(c, v)
	}
	op, ok := place.AskLess(c, s.Resource, s.Free/pods)
	if !ok {
		return nil
	}
	less := why.Quantity(s.Resource, s.Free/pods)
	return append(KueueOnly(c, edit.Edit{Side: edit.Workload, Cost: 2, Ops: []edit.Op{op}, Text: fmt.Sprintf("ask for %s %s per pod instead of %s", less, s.Resource, why.Quantity(s.Resource, each))}), kueueFewer(c, v)...)
}

// kueueFewer has a Job run fewer pods at a time.
func kueueFewer(c *check.Case, v *KueueView) []edit.Edit {
	j, ok := c.Top.(*batchv1.Job)
	s := v.Room.Short
	if !ok || v.Work == nil || len(kueuePodSets(c.Facts, v.Work)) != 1 {
		return nil
	}
	each := podspec.Amounts(&j.Spec.Template.Spec)[s.Resource]
	if each == 0 || s.Free/each == 0 || s.Free/each >= int64(ptr.Deref(j.Spec.Parallelism, 1)) {
		return nil
	}
	n := int32(s.Free / each)
	fewer := j.DeepCopy()
	fewer.Spec.Parallelism = &n
	return KueueOnly(c, edit.Edit{
		Side: edit.Workload, Cost: 2, Set: []facts.Object{fewer, edit.WithValues(v.Work, map[string]any{"/spec/podSets/0/count": int64(n)})},
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

// KueueRelief is what helps against too little quota.
func KueueRelief(c *check.Case, v *KueueView) []edit.Edit {
	if v.Cluster == nil || v.Room.Short == nil {
		return nil
	}
	return slices.Concat(KueueElsewhere(c, v), kueueAskLess(c, v), kueueBorrow(c, v), kueueRaise(c, v))
}

// kueueFound is the finding of a view: the sentence of Kueue itself where there is no better one.
func (v *KueueView) Found(message string, edits []edit.Edit) []check.Finding {
	if v.Message != "" && v.Room.Short == nil {
		message += ": " + strings.TrimSuffix(v.Message, ".")
	}
	return []check.Finding{{Message: message, Evidence: v.quotaEvidence(), Edits: edits}}
}

// Name is the ClusterQueue's, or the LocalQueue's where that is all that can be seen.
func (v *KueueView) Name() string {
	if v.Cluster != nil {
		return "ClusterQueue " + v.Cluster.GetName()
	}
	if v.Local != nil {
		return "ClusterQueue " + dialect.Text(v.Local.Object, "spec", "clusterQueue")
	}
	return "LocalQueue " + v.Queue
}

// KueueNew is an object of Kueue in the version that the others have.
func KueueNew(f *facts.Facts, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	version := "kueue.x-k8s.io/" + facts.KindOf("kueue.x-k8s.io", kind).Version
	for _, key := range []string{kueue.LocalQueues, kueue.ClusterQueues, kueue.Workloads} {
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
