package facts

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The index of facts after changes is the one that would be made of them from scratch.
func TestIndexAfterChanges(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "job"}}
	pod := func(i int, node string, phase corev1.PodPhase, owned bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("pod-%d", i), UID: types.UID(fmt.Sprintf("pod-%d", i))}}
		p.Spec.NodeName, p.Status.Phase = node, phase
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		}
		return p
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func() *corev1.Pod {
			return pod(rapid.IntRange(0, 5).Draw(t, "pod"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "node"),
				rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase"), rapid.Bool().Draw(t, "owned"))
		}
		f := &Facts{Objects: Objects{Jobs: []*batchv1.Job{job}}}
		for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
			p := draw()
			p.Name, p.UID = fmt.Sprintf("pod-%d", i), types.UID(fmt.Sprintf("pod-%d", i))
			f.Pods = append(f.Pods, p)
		}
		var changes []Change
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				changes = append(changes, Change{Now: draw()})
			case 1:
				changes = append(changes, Change{Was: draw()})
			case 2:
				name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
				changes = append(changes, Change{Now: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name)}}})
			default:
				other := job.DeepCopy()
				other.Labels = map[string]string{"edited": "yes"}
				changes = append(changes, Change{Now: other})
			}
		}
		g := f.After(changes)
		byName := cmpopts.SortSlices(func(a, b Object) bool { return a.GetName() < b.GetName() })
		podsByName := cmpopts.SortSlices(func(a, b *corev1.Pod) bool { return a.Name < b.Name })
		want := makeIndex(&g.Objects)
		for _, d := range []string{
			cmp.Diff(want.pods, g.index.pods), cmp.Diff(want.nodes, g.index.nodes), cmp.Diff(want.onNode, g.index.onNode, podsByName),
			cmp.Diff(want.children, g.index.children, byName), cmp.Diff(want.objects, g.index.objects),
		} {
			if d != "" {
				t.Fatal(d)
			}
		}
	})
}
