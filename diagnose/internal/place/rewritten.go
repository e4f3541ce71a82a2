package place

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Rewritten says of a resource that the pod asks for more or less of it than the template that it was made of: a webhook changes pods on
// their way in, as a VerticalPodAutoscaler and those who inject sidecars do, and will change the next one too. "" where none did, or
// that is unknown. What a LimitRange or the API server fills in is no change.
func Rewritten(f *facts.Facts, p *corev1.Pod, name corev1.ResourceName) string {
	m := f.Controller(p)
	if m == nil || p.UID == "" || f.WasEdited(p) || f.WasEdited(m) || ofEarlier(m, p) {
		return ""
	}
	t := facts.TemplateFor(m, p)
	if t == nil {
		return ""
	}
	whose := fmt.Sprintf("the template of %s", facts.RefTo(m))
	for i := range p.Spec.Containers {
		k := &p.Spec.Containers[i]
		q, asks := k.Resources.Requests[name]
		at := slices.IndexFunc(t.Spec.Containers, func(o corev1.Container) bool { return o.Name == k.Name })
		if at < 0 {
			if asks && !q.IsZero() {
				return fmt.Sprintf("container %s, which asks for %s of it, is not in %s: something adds it to its pods", k.Name, &q, whose)
			}
			continue
		}
		r := t.Spec.Containers[at].Resources
		was, written := r.Requests[name]
		if !written {
			was, written = r.Limits[name]
		}
		if written && asks && was.Cmp(q) != 0 {
			return fmt.Sprintf("%s asks for %s in container %s, and something gives its pods %s%s", whose, &was, k.Name, &q, rewriter(p))
		}
	}
	return ""
}

// ofEarlier says whether the pod may be of an earlier template than its maker has now: a StatefulSet's, or a DaemonSet's.
func ofEarlier(m facts.Object, p *corev1.Pod) bool {
	hash := p.Labels[appsv1.ControllerRevisionHashLabelKey]
	switch m := m.(type) {
	case *appsv1.StatefulSet:
		return hash == "" || hash != m.Status.UpdateRevision
	case *appsv1.DaemonSet:
		return true
	}
	return !metav1.IsControlledBy(p, m)
}

// rewriter is who says on the pod that it changed it, as the admission controller of the VerticalPodAutoscaler does
// (ResourceUpdatesAnnotation in its resource_updates.go).
func rewriter(p *corev1.Pod) string {
	if _, said := p.Annotations["vpaUpdates"]; said {
		return ", as its annotation vpaUpdates says"
	}
	return ""
}

// ToldRewritten adds to a finding that what the pod asks for is not what its author wrote.
func ToldRewritten(c *check.Case, f *check.Finding, name string) {
	said := Rewritten(c.Facts, c.Pod, corev1.ResourceName(name))
	if said == "" {
		return
	}
	f.Message += "; " + said
	f.Advice = "Have whoever changes the pods as they are made ask for less: what their template says does not count."
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[].resources.requests[%q]", name), Value: fmt.Sprintf("%s, unlike in its template", QuantityText(c.Pod, name))})
}

// QuantityText is how much of the resource the pod asks for.
func QuantityText(p *corev1.Pod, name string) string {
	q := podspec.TotalRequests(p)[corev1.ResourceName(name)]
	return q.String()
}
