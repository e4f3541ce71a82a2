package l3

import (
	"cmp"
	"fmt"
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
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var gangDeadlockCheck = check.Check{
	Cause: "gang-deadlock", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 65,
	Title:   "Two jobs have half of their pods each",
	Meaning: "The job's pods work only together, and so do those of another job. Each has some of its pods on nodes, idle until the rest come, and these pods are what the rest of the other needs. Neither goes on.",
	Remedy:  "Stop one of the jobs so that the other can start whole. Have such jobs placed as gangs, all pods or none: with a PodGroup, or the annotation berth.dev/gang.",
	Not:     "The cluster is full, and it is a matter of waiting: nothing of this will end by itself.",
	Find:    gangDeadlock,
}

func gangDeadlock(c *check.Case) []check.Finding {
	if c.Fit == nil || c.Fit.Placed() || c.GangOf(c.Pod) != "" || !togetherOnly(c.Top, c.Pod) {
		return nil
	}
	mine := halfOf(c.Top, c.All)
	if mine == nil {
		return nil
	}
	others := halves(c, mine)
	if len(others) == 0 {
		return nil
	}
	first := others[0]
	found := check.Finding{
		Fit: true,
		Message: fmt.Sprintf("%d of its %d pods have a node and idle until the others come, and %s of namespace %s, with %d of %d, does the same: each holds what the other waits for",
			len(mine.placed), len(mine.placed)+len(mine.waiting), facts.RefTo(first.top), first.top.GetNamespace(), len(first.placed), len(first.placed)+len(first.waiting)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(c.Top).In(), Field: "pods with a node", Value: wording.Few(place.PodNames(mine.placed, c.Pod.Namespace))},
			{Object: facts.RefTo(first.top).In(), Field: "pods with a node", Value: wording.Few(place.PodNames(first.placed, c.Pod.Namespace))},
		},
	}
	for _, o := range others[:min(2, len(others))] {
		found.Edits = append(found.Edits, o.stopped())
	}
	return []check.Finding{found}
}

// half is a workload some of whose pods have a node, while others wait.
type half struct {
	top             facts.Object
	placed, waiting []*corev1.Pod
}

func halfOf(top facts.Object, pods []*corev1.Pod) *half {
	h := &half{top: top}
	for _, p := range pods {
		switch {
		case facts.Ended(p) || p.DeletionTimestamp != nil:
		case p.Spec.NodeName != "":
			h.placed = append(h.placed, p)
		default:
			h.waiting = append(h.waiting, p)
		}
	}
	if len(h.placed) == 0 || len(h.waiting) == 0 {
		return nil
	}
	return h
}

// halves are other workloads in the same state who hold, on their own, as many devices as this one's pods wait for:
// those that hold least first.
func halves(c *check.Case, mine *half) []*half {
	pods := make(map[facts.Object][]*corev1.Pod)
	for _, p := range c.Pods {
		if c.GangOf(p) == "" && !place.OfTarget(c, p) && len(facts.ExtendedOf(p)) > 0 {
			top := place.TopOf(c.Facts, p)
			pods[top] = append(pods[top], p)
		}
	}
	var out []*half
	for top, of := range pods {
		if h := halfOf(top, of); h != nil && togetherOnly(top, of[0]) && holdEnough(h.placed, mine.waiting) {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *half) int {
		return cmp.Or(cmp.Compare(len(a.placed), len(b.placed)), strings.Compare(a.top.GetNamespace()+"/"+a.top.GetName(), b.top.GetNamespace()+"/"+b.top.GetName()))
	})
	return out
}

// holdEnough says whether the pods hold as many devices as the others ask for, of each kind.
func holdEnough(held, asked []*corev1.Pod) bool {
	sum := func(pods []*corev1.Pod, name string) (n int64) {
		for _, p := range pods {
			for i := range p.Spec.Containers {
				q := p.Spec.Containers[i].Resources.Limits[corev1.ResourceName(name)]
				n += q.Value()
			}
		}
		return n
	}
	names := facts.ExtendedOf(asked[0])
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return sum(held, name) < sum(asked, name) })
}

// togetherOnly says whether the object's pods are of use only all at once, as far as it shows.
func togetherOnly(o facts.Object, p *corev1.Pod) bool {
	switch o := o.(type) {
	case *batchv1.Job:
		indexed := ptr.Deref(o.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
		return ptr.Deref(o.Spec.Parallelism, 1) > 1 && (indexed || findsOthers(p))
	case *unstructured.Unstructured:
		return slices.Contains([]string{"JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "RayCluster", "LeaderWorkerSet"}, o.GetKind())
	}
	return false
}

// findsOthers says whether the pod's containers are told how to find the others.
func findsOthers(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == "WORLD_SIZE" || e.Name == "MASTER_ADDR" || e.Name == "PET_NNODES"
		}) {
			return true
		}
		if line := strings.Join(slices.Concat(c.Command, c.Args), " "); strings.Contains(line, "torchrun") || strings.Contains(line, "mpirun") {
			return true
		}
	}
	return false
}

// stopped is the edit that takes the workload's pods away until it is resumed by hand.
func (h *half) stopped() edit.Edit {
	r := facts.RefTo(h.top)
	e := edit.Edit{Side: edit.Cluster, Cost: 7, Text: fmt.Sprintf("suspend %s of namespace %s, and let it go on when this one has ended", r, r.Namespace), Assumes: "its owner agrees; what its pods have done since they last saved is lost"}
	for _, p := range slices.Concat(h.placed, h.waiting) {
		e.Gone = append(e.Gone, p)
	}
	switch top := h.top.(type) {
	case *batchv1.Job:
		after := top.DeepCopy()
		after.Spec.Suspend = new(true)
		e.Set = append(e.Set, after)
		e.Command = fmt.Sprintf("kubectl patch job %s -n %s --type=merge -p '{\"spec\":{\"suspend\":true}}'", r.Name, r.Namespace)
	case *unstructured.Unstructured:
		if top.GetKind() == "JobSet" {
			e.Command = fmt.Sprintf("kubectl patch jobset %s -n %s --type=merge -p '{\"spec\":{\"suspend\":true}}'", r.Name, r.Namespace)
		}
	}
	return e
}
