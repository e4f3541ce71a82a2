package diagnose_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// TestNoSentenceOfBerthIsRead holds every case to its answer after each sentence that Berth wrote has been replaced by
// words that nobody knows, as a translator would: what Berth said is read from the data beside the sentence.
func TestNoSentenceOfBerthIsRead(t *testing.T) {
	for _, name := range caseNames(t) {
		c := loadCase(t, name, fixedSeed())
		if !translate(c.facts) {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			got := c.diagnose(t)
			if wrong := c.wrong(got); len(wrong) > 0 {
				b, _ := yaml.Marshal(got)
				t.Errorf("%s (Kubernetes %s)\n%s", strings.Join(wrong, "\n"), c.facts.Kubernetes, b)
			}
		})
	}
}

// translate replaces Berth's sentences in the conditions of its pods, PodGroups and queues, and in its events. It says
// whether there were any.
func translate(f *facts.Facts) (some bool) {
	const words = "neniu legas tion"
	put := func(message *string) {
		if *message != "" {
			some, *message = true, words
		}
	}
	ours := func(p *corev1.Pod) bool { return p.Spec.SchedulerName == "berth" }
	for _, p := range f.Pods {
		for i := range p.Status.Conditions {
			switch s := &p.Status.Conditions[i]; s.Type {
			case corev1.PodScheduled, corev1.DisruptionTarget, v1alpha1.PodEvictionPlanned:
				if ours(p) {
					put(&s.Message)
				}
			}
		}
	}
	for _, e := range f.Events {
		if e.ReportingController == "berth" || e.Source.Component == "berth" {
			put(&e.Message)
		}
	}
	for _, q := range f.Foreign["BerthQueue.berth.dev"] {
		conditions, _, _ := unstructured.NestedSlice(q.Object, "status", "conditions")
		for _, s := range conditions {
			if m, ok := s.(map[string]any); ok {
				some, m["message"] = true, words
			}
		}
		if len(conditions) > 0 {
			_ = unstructured.SetNestedSlice(q.Object, conditions, "status", "conditions")
		}
	}
	return some
}
