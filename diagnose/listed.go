package diagnose

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// A list of what waits is made in two steps. Waiting finds candidates by a look at each object, which costs as little for a cluster on which
// all is well as it can; the answers to them tell which of the doubtful ones belong in it.

// Candidate is work that is looked at for a list of what waits.
type Candidate struct {
	facts.Ref
	// Doubtful says that the work may be well: it runs with a sign of trouble, or has no pods for reasons of its own.
	Doubtful bool
}

// Lists says whether the answer about the candidate belongs in the list.
func (c Candidate) Lists(d *Diagnosis) bool { return !c.Doubtful || d.Layer != check.None }

// Waiting returns the work that does not run as it should, or may not: the topmost owners of pods that wait, run with a sign of trouble or do
// not go, and owners of pods that do not exist; by namespace and name. namespace "" is all.
func (d *Diagnoser) Waiting(namespace string) []Candidate {
	f := d.facts
	found := make(map[facts.Ref]bool)
	var out []Candidate
	add := func(o facts.Object, doubtful bool) {
		for range 8 {
			up := f.Controller(o)
			if up == nil || facts.KindOfObject(up) == nil || !slices.Contains(facts.AskedKinds, facts.KindOfObject(up).Kind) {
				break
			}
			o = up
		}
		if r := facts.RefTo(o); !found[r] {
			found[r] = true
			out = append(out, Candidate{r, doubtful})
		}
	}
	for _, doubtful := range []bool{false, true} { // work that is both waits
		pod, owner := waitingPod, waitingOwner
		if doubtful {
			pod, owner = doubtfulPod, doubtfulOwner
		}
		for _, p := range f.Pods {
			if (namespace == "" || p.Namespace == namespace) && pod(f, p) {
				add(p, doubtful)
			}
		}
		for _, k := range facts.Kinds {
			if k.Kind == "Pod" || !slices.Contains(facts.AskedKinds, k.Kind) {
				continue
			}
			for _, o := range k.List(&f.Objects) {
				if (namespace == "" || o.GetNamespace() == namespace) && owner(f, o) {
					add(o, doubtful)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// waitingPod says whether the pod is not where its author wants it.
func waitingPod(f *facts.Facts, p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && (facts.Unsettled(p) || strandedPod(f, p))
}

// strandedPod says whether the pod should run, and its node is not Ready, gone or about to evict it. What runs on every node is left out: the node
// is the matter.
func strandedPod(f *facts.Facts, p *corev1.Pod) bool {
	if facts.StateOf(p) != facts.Running || p.Spec.NodeName == "" || place.ByDaemonSet(p) || p.Annotations[corev1.MirrorPodAnnotationKey] != "" || !f.Sees("nodes", "") {
		return false
	}
	n := f.NodeNamed(p.Spec.NodeName)
	return n == nil || !facts.NodeReady(n) || life.Doomed(f, p) != nil
}

// waitingOwner says whether pods of the object are missing, or it is held back by its own word.
func waitingOwner(f *facts.Facts, o facts.Object) bool {
	j, ok := o.(*batchv1.Job)
	return f.MissingPods(o) > 0 || ok && ptr.Deref(j.Spec.Suspend, false) && facts.JobEnded(j) == ""
}

// recent is how long a crash is a sign of trouble.
const recent = 24 * time.Hour

// doubtfulPod says whether something about a pod that runs, or was deleted, is not as it is when all is well: it is not ready, has crashed lately,
// has a condition that speaks of trouble, or has outstayed its grace period.
func doubtfulPod(f *facts.Facts, p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return f.At.After(p.DeletionTimestamp.Time)
	}
	if facts.StateOf(p) != facts.Running {
		return false
	}
	for _, c := range p.Status.Conditions {
		bad := corev1.ConditionFalse // most say that something is done
		switch c.Type {
		case corev1.DisruptionTarget, corev1.PodResizePending:
			bad = corev1.ConditionTrue
		case corev1.PodResizeInProgress:
			continue
		}
		if c.Status == bad {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		last := s.LastTerminationState.Terminated
		return s.State.Running != nil && !s.Ready || last != nil && f.At.Sub(last.FinishedAt.Time) < recent
	})
}

// doubtfulOwner says the same of what makes pods: it does not go, some of its pods have failed, its rollout does not advance, or it has never made
// any.
func doubtfulOwner(f *facts.Facts, o facts.Object) bool {
	if at := o.GetDeletionTimestamp(); at != nil {
		return f.At.Sub(at.Time) > time.Minute
	}
	switch o := o.(type) {
	case *batchv1.Job:
		return facts.JobEnded(o) == "" && (o.Status.Failed > 0 || len(facts.FailedIndexes(o)) > 0)
	case *batchv1.CronJob:
		return !ptr.Deref(o.Spec.Suspend, false)
	case *appsv1.Deployment:
		return o.Status.UpdatedReplicas < ptr.Deref(o.Spec.Replicas, 1)
	case *unstructured.Unstructured:
		_, suspended := facts.Suspended(o)
		return !suspended && !facts.Over(o) && len(f.PodsOf(facts.RefTo(o))) == 0
	}
	return false
}
