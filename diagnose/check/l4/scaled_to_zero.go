package l4

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var scaledToZeroCheck = check.Check{
	Cause: "scaled-to-zero", Layer: check.L4, Owner: check.User, Stage: check.Create, Rank: 2,
	Title:   "It is scaled to zero",
	Meaning: "The object asks for no pods: its replicas are 0. Nothing is wrong, unless it is known to have asked for some before: then somebody scaled it, and it can be scaled back. Completions or parallelism of 0 are hardly ever meant: such a Job is complete at once, or never starts.",
	Remedy:  "Scale it up when it should run.",
	Not:     "The pods were refused or cannot be placed: nobody asked for them.",
	Find:    scaledToZero,
}

func scaledToZero(c *check.Case) []check.Finding {
	if j, ok := c.Owner().(*batchv1.Job); ok {
		return jobOfNothing(c, j)
	}
	if c.State != facts.Absent {
		return nil
	}
	zero := func(o facts.Object, replicas *int32) []check.Finding {
		if ptr.Deref(replicas, 1) != 0 {
			return nil
		}
		r := facts.RefTo(o)
		f := check.Finding{
			Healthy: true, Message: fmt.Sprintf("%s asks for no pods: its replicas are 0", r),
			Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.replicas", Value: "0"}},
			Advice:   fmt.Sprintf("To run it: kubectl scale %s %s -n %s --replicas=1", strings.ToLower(r.Kind), r.Name, r.Namespace),
		}
		if s := scalerOf(c, r); s != nil {
			by(&f, s)
		}
		return []check.Finding{f}
	}
	switch o := c.Top.(type) {
	case *appsv1.Deployment:
		return zero(o, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return zero(o, o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return zero(o, o.Spec.Replicas)
	}
	return nil
}

// jobOfNothing is about a Job that asks for no pods: with no completions it is complete at once, and with no parallelism it waits for
// ever. Both can be written, and hardly anybody means them.
func jobOfNothing(c *check.Case, j *batchv1.Job) []check.Finding {
	r := facts.RefTo(j)
	if c.Exists || j.Status.Succeeded+j.Status.Failed > 0 || ptr.Deref(j.Spec.Suspend, false) || ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName {
		return nil
	}
	n := j.DeepCopy()
	n.Status = batchv1.JobStatus{}
	one := max(1, ptr.Deref(j.Spec.Parallelism, 1))
	switch {
	case ptr.Deref(j.Spec.Completions, 1) == 0:
		n.Spec.Completions = &one
		ops := append(edit.RecreateJob(j), edit.Op{Op: "replace", Path: "/spec/completions", Value: one})
		return []check.Finding{{
			Message:  fmt.Sprintf("%s asks for no pods: its completions are 0, so that it is complete without having run", r),
			Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.completions", Value: "0"}},
			Edits: []edit.Edit{{
				Side: edit.Workload, Cost: edit.CostSmall, Set: []facts.Object{n}, Text: fmt.Sprintf("make %s anew with %s to complete", r, wording.Pods(int(one))), Assumes: "that many are meant",
				Command: fmt.Sprintf("kubectl get job %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", r.Name, r.Namespace, edit.QuoteOps(ops)),
			}},
			Advice: "Make the Job anew with as many completions as are meant: they cannot be changed later.",
		}}
	case ptr.Deref(j.Spec.Parallelism, 1) == 0 && facts.JobEnded(j) == "":
		n.Spec.Parallelism = &one
		return []check.Finding{{
			Message:  fmt.Sprintf("%s runs no pods: its parallelism is 0", r),
			Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.parallelism", Value: "0"}},
			Edits: []edit.Edit{{
				Side: edit.Workload, Cost: edit.CostSmall, Set: []facts.Object{n}, Text: fmt.Sprintf("run 1 pod of %s at a time", r), Assumes: "that many are meant",
				Command: edit.PatchLine(j, "merge", map[string]any{"spec": map[string]any{"parallelism": 1}}),
			}},
			Advice: "Set its parallelism to how many pods are to run at a time.",
		}}
	}
	return nil
}

// scalerOf is the object of another project that sets the replicas, by the reference that all of them have; nil: none was read.
func scalerOf(c *check.Case, r facts.Ref) *unstructured.Unstructured {
	for _, key := range slices.Sorted(maps.Keys(c.Foreign)) {
		for _, u := range c.Foreign[key] {
			name, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
			kind, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "kind")
			if name == r.Name && u.GetNamespace() == r.Namespace && cmp.Or(kind, "Deployment") == r.Kind {
				return u
			}
		}
	}
	return nil
}

// by says who scaled it: replicas that are set by hand do not last then. A scaler that does not work leaves the work at zero.
func by(f *check.Finding, u *unstructured.Unstructured) {
	r := facts.RefTo(u)
	f.Message += fmt.Sprintf(", and %s sets them", r)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: r.In(), Field: "spec.scaleTargetRef.name", Value: "sets the replicas"})
	f.Advice = fmt.Sprintf("Look at what %s scales by, or at its minimum: replicas that are set by hand do not last.", r)
	for _, k := range facts.ConditionsOf(u) {
		if k.Type == "Ready" && k.Bad() {
			f.Healthy, f.Owner = false, check.Platform
			f.Message += fmt.Sprintf(", which reports Ready=%s (%s): %s", k.Status, k.Reason, wording.Shortened(k.Message, 160))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: r.In(), Field: k.Field, Value: wording.Shortened(k.Status+" "+k.Reason+": "+k.Message, 200)})
		}
	}
}
