package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

const (
	// notHonoured is the reason of events in which the scheduler lists what an object asks for and does not get.
	notHonoured = "NotHonoured"
	// mostUnheeded bounds the list, and mostAsked the objects that are looked at for it.
	mostUnheeded, mostAsked = 16, 64
)

// groupKeys are the annotations and labels by which pods name the PodGroup of another project.
var groupKeys = []string{"pod-group-name", "scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"}

// unheeded is what the target asks for without effect: fields and keys that the scheduler says it does not understand, in events and
// conditions on the target, on what it controls, and on the PodGroups that its pods name. Each once, sorted.
func unheeded(f *facts.Facts, top facts.Object) []string {
	all := []facts.Object{top}
	for i := 0; i < len(all) && len(all) < mostAsked; i++ {
		all = append(all, f.Children(all[i])...)
	}
	var out []string
	tell := func(list string) {
		for what := range strings.SplitSeq(list, "; ") {
			if what != "" {
				out = append(out, what)
			}
		}
	}
	tellEvents := func(events []*corev1.Event) {
		for _, e := range events {
			_, list, _ := strings.Cut(e.Message, ": ")
			tell(list)
		}
	}
	for _, o := range all {
		tellEvents(f.EventsOf(o, notHonoured))
		switch o := o.(type) {
		case *corev1.Pod:
			for _, name := range groupsOf(o) {
				tellEvents(f.EventsNamed("PodGroup", o.Namespace, name, notHonoured))
			}
		case *unstructured.Unstructured: // of a Job that has no pods yet, the object that stands for it tells
			tell(withoutEffect(o))
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), mostUnheeded)]
}

// withoutEffect is the list in the condition of an object of another project, "" for none.
func withoutEffect(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == v1alpha1.NotUnderstood {
			text, _ := c["message"].(string)
			_, list, _ := strings.Cut(text, "Without effect: ")
			return list
		}
	}
	return ""
}

// groupsOf are the PodGroups that the pod names.
func groupsOf(p *corev1.Pod) (out []string) {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		out = append(out, *g.PodGroupName)
	}
	for _, key := range groupKeys {
		for _, name := range []string{p.Annotations[key], p.Labels[key]} {
			if name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}
