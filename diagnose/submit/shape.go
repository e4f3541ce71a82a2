package submit

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// shape is the same for two workloads that differ in nothing but their names: where the cluster has no place for one, it has none
// for the other, for the same reason. A submission of hundreds of Jobs often has a handful of shapes, and a diagnosis costs
// milliseconds on a large cluster.
func (s *submission) shape() string {
	if s.shaped != "" {
		return s.shaped
	}
	type part struct {
		Maker, Above, Template string
		Wanted, Pods           int
		Labels, Annotations    map[string]string
		Spec                   *corev1.PodSpec
	}
	var parts []part
	seen := make(map[string]int)
	for i := range s.Parts {
		p := &s.Parts[i]
		if at, ok := seen[p.Template]; ok {
			parts[at].Wanted, parts[at].Pods = parts[at].Wanted+p.Wanted, parts[at].Pods+len(p.Pods)
			continue
		}
		seen[p.Template] = len(parts)
		of := part{Maker: fmt.Sprintf("%T", p.Maker), Above: fmt.Sprintf("%T", p.Above), Template: p.Template, Wanted: p.Wanted, Pods: len(p.Pods)}
		if len(p.Pods) > 0 {
			pod := p.Pods[0]
			of.Labels, of.Annotations, of.Spec = ownLabels(pod.Labels), pod.Annotations, &pod.Spec
		}
		parts = append(parts, of)
	}
	b, err := json.Marshal([]any{s.Ref.Kind, s.Ref.Namespace, s.Object.GetLabels(), s.Object.GetAnnotations(), parts})
	if err != nil {
		b = []byte(s.Ref.In()) // alike to itself alone
	}
	s.shaped = string(b)
	return s.shaped
}

// ownLabels are those that a controller does not give a pod for its number or its controller's name.
func ownLabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	for _, key := range []string{batchv1.JobNameLabel, batchv1.JobCompletionIndexAnnotation, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel} {
		delete(out, key)
	}
	for _, key := range workload.CrewLabels() {
		delete(out, key)
	}
	return out
}

// answer is one that holds for all workloads of a shape.
type answer struct {
	of     *submission // that it was worked out for
	result Workload
	yes    bool
}

// about is the answer as one about another workload of the shape.
func (a *answer) about(s *submission) Workload {
	r := a.result
	if a.of == s {
		return r
	}
	renamed := func(text string) string { return strings.ReplaceAll(text, a.of.Ref.String(), s.Ref.String()) }
	r.Summary = renamed(r.Summary)
	r.Fixes = append([]Fix(nil), r.Fixes...)
	for i := range r.Fixes {
		f := &r.Fixes[i]
		f.Edit, f.Outcome = renamed(f.Edit), renamed(f.Outcome)
	}
	return r
}
