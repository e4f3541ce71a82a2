package edit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// PatchLine is the command that changes the object in place.
func PatchLine(o facts.Object, how string, body any) string {
	b, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	what := facts.KindOfObject(o).Name() + " " + o.GetName()
	if o.GetNamespace() != "" {
		what += " -n " + o.GetNamespace()
	}
	return fmt.Sprintf("kubectl patch %s --type=%s -p '%s'", what, how, strings.ReplaceAll(string(b), "'", `'\''`))
}

// ApplyLine is the command that makes the object.
func ApplyLine(o facts.Object) string {
	b, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("echo '%s' | kubectl apply -f -", strings.ReplaceAll(string(b), "'", `'\''`))
}

// fixed are kinds of other projects whose templates cannot be changed, or are not looked at again, once their pods are made: JobSet
// (pkg/webhooks/jobset_webhook.go), Volcano (pkg/webhooks/admission/jobs/validate/admit_job.go), and a RayJob's, of which its RayCluster
// was made. The pods of other kinds must be deleted by hand after a change of the template.
var fixed = map[string]bool{"jobsets.jobset.x-k8s.io": true, "jobs.batch.volcano.sh": true, "rayjobs.ray.io": true, "trainjobs.trainer.kubeflow.org": true}

// Fixed says whether a change of the object's template takes making the object anew.
func Fixed(o facts.Object) bool {
	k := facts.KindOfObject(o)
	return k != nil && k.Foreign && fixed[k.Name()]
}

// PatchCommand is a line for a shell that does the operations to the object's pods. What cannot be changed in place is
// made anew. Of several templates, it changes the one of the pod; nil: the first.
func PatchCommand(o facts.Object, of *corev1.Pod, ops []Op) string {
	r, k := facts.RefTo(o), facts.KindOfObject(o)
	moved := make([]Op, 0, len(ops)+4)
	anew := Fixed(o)
	switch o := o.(type) {
	case *corev1.Pod:
		anew = true
		if o.Spec.NodeName != "" {
			moved = append(moved, Op{Op: "remove", Path: "/spec/nodeName"})
		}
		if o.Annotations[v1alpha1.KeyGPUs] != "" { // of the devices that it had there
			moved = append(moved, Op{Op: "remove", Path: Pointer("metadata", "annotations", v1alpha1.KeyGPUs)})
		}
	case *batchv1.Job:
		anew = true
		moved = append(moved, RecreateJob(o)...)
	}
	for _, op := range ops {
		op.Path = facts.TemplatePathFor(o, of) + op.Path
		if slices.ContainsFunc(moved, func(m Op) bool { return m.Op == "remove" && m.Path == op.Path }) { // it is gone by then
			if op.Op == "remove" {
				continue
			}
			op.Op = "add"
		}
		moved = append(moved, op)
	}
	moved = whole(o, moved)
	kind := strings.ToLower(r.Kind)
	if k.Foreign {
		kind = k.Name()
	}
	if !anew {
		return fmt.Sprintf("kubectl patch %s %s -n %s --type=json -p %s", kind, r.Name, r.Namespace, QuoteOps(moved))
	}
	return fmt.Sprintf("kubectl get %s %s -n %s -o json | kubectl patch --local -f - --type=json -p %s -o json | kubectl replace --force -f -", kind, r.Name, r.Namespace, QuoteOps(moved))
}

// RecreateJob takes away what the API server wrote into a Job and would not take back.
func RecreateJob(o facts.Object) []Op {
	out := []Op{{Op: "remove", Path: "/spec/selector"}}
	t := facts.TemplateOf(o)
	for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"} {
		if t != nil && t.Labels[label] != "" {
			out = append(out, Op{Op: "remove", Path: Pointer("spec", "template", "metadata", "labels", label)})
		}
	}
	return out
}

// QuoteOps is the JSON patch as one word of a shell.
func QuoteOps(ops []Op) string {
	b, err := json.Marshal(ops)
	if err != nil {
		return "''"
	}
	return "'" + strings.ReplaceAll(string(b), "'", `'\''`) + "'"
}
