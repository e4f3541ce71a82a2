package place

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// FewerPods is the edit that leaves the target with the pods that have a node already, where it can be asked for
// that: of a Deployment, ReplicaSet, StatefulSet or Job.
func FewerPods(c *check.Case) (edit.Edit, bool) {
	e := edit.Edit{Side: edit.Workload, Cost: 4}
	placed := int32(0)
	for _, p := range c.All {
		switch {
		case facts.Ended(p) || p.DeletionTimestamp != nil:
		case p.Spec.NodeName != "":
			placed++
		default:
			e.Gone = append(e.Gone, p)
		}
	}
	what := ""
	switch top := c.Top.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		what = fmt.Sprintf("scale %s from %d to %s", facts.RefTo(top), replicasOf(top), wording.Number(placed, "replica"))
		e.Command = fmt.Sprintf("kubectl scale %s %s -n %s --replicas=%d", strings.ToLower(facts.RefTo(top).Kind), top.GetName(), top.GetNamespace(), placed)
	case *batchv1.Job:
		what = fmt.Sprintf("run %s of %s at a time instead of %d", wording.Number(placed, "pod"), facts.RefTo(top), ptr.Deref(top.Spec.Parallelism, 1))
		e.Command = fmt.Sprintf("kubectl patch job %s -n %s --type=merge -p '{\"spec\":{\"parallelism\":%d}}'", top.Name, top.Namespace, placed)
		e.Assumes = "the others may run when these have ended"
	default:
		return e, false
	}
	if placed == 0 || len(e.Gone) == 0 {
		return e, false
	}
	e.Text = what
	for _, m := range c.Owners {
		if s := scaled(m, placed); s != nil {
			e.Set = append(e.Set, s)
		}
	}
	e.Outcome = fmt.Sprintf("nothing waits any more; %s %s on", wording.Number(placed, "pod"), wording.InNumber(placed, "runs", "run"))
	return e, true
}

// Size shows how many pods the target asks for, where that is more than one: a finding about one pod more is about that number too.
func Size(c *check.Case) []facts.Evidence {
	field, n := "spec.replicas", replicasOf(c.Top)
	if j, ok := c.Top.(*batchv1.Job); ok {
		field, n = "spec.parallelism", ptr.Deref(j.Spec.Parallelism, 1)
	}
	if n < 2 {
		return nil
	}
	return []facts.Evidence{{Object: facts.RefTo(c.Top).In(), Field: field, Value: fmt.Sprint(n)}}
}

func replicasOf(o facts.Object) int32 {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	}
	return 0
}

// scaled is a copy of the object that wants so many pods, nil for what has no number of them.
func scaled(o facts.Object, n int32) facts.Object {
	switch o := o.(type) {
	case *appsv1.Deployment:
		o = o.DeepCopy()
		o.Spec.Replicas = &n
		return o
	case *appsv1.ReplicaSet:
		o = o.DeepCopy()
		o.Spec.Replicas = &n
		return o
	case *appsv1.StatefulSet:
		o = o.DeepCopy()
		o.Spec.Replicas = &n
		return o
	case *batchv1.Job:
		o = o.DeepCopy()
		o.Spec.Parallelism = &n
		return o
	}
	return nil
}

// OfTarget says whether the pod is one of the target's own.
func OfTarget(c *check.Case, p *corev1.Pod) bool {
	for _, o := range c.All {
		if o.Namespace == p.Namespace && o.Name == p.Name {
			return true
		}
	}
	return false
}

// TopOf is the highest owner of the pod that can be seen, or the pod.
func TopOf(f *facts.Facts, p *corev1.Pod) facts.Object {
	var at facts.Object = p
	for range 8 {
		up := f.Controller(at)
		if up == nil {
			break
		}
		at = up
	}
	return at
}

// Another is a node like the given one that does not exist yet, with the labels.
func Another(n *corev1.Node, labels map[string]string) *corev1.Node {
	m := n.DeepCopy()
	m.Name, m.UID = n.Name+"-more", types.UID(string(n.UID)+"-more")
	m.Labels = gpustack.WithLabel(m.Labels, corev1.LabelHostname, m.Name) // a node may have none
	for k, v := range labels {
		m.Labels[k] = v
	}
	m.Spec.Unschedulable = false
	return m
}
