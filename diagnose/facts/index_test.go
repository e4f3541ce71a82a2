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

// Owner references are what anybody writes. Whatever they say, the walks over owners end, soon, and nobody is made by what he made.
func TestOwnersThatAnybodyWrites(t *testing.T) {
	job := func(namespace, name, by string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		if by != "" {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: by, UID: types.UID(by), Controller: new(true)}}
		}
		return j
	}
	pod := func(by string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: job("team", "pod-of-"+by, by).ObjectMeta}
		return p
	}
	chain := func(n int) (out []*batchv1.Job) {
		out = []*batchv1.Job{job("team", "j0", "")}
		for i := 1; i < n; i++ {
			out = append(out, job("team", fmt.Sprintf("j%d", i), fmt.Sprintf("j%d", i-1)))
		}
		return out
	}
	for name, c := range map[string]struct {
		jobs []*batchv1.Job
		pod  string // its owner
		of   string // has so many pods and so many owners of pods
		pods int
		all  int
		top  string // of the pod
	}{
		"itself":                 {jobs: []*batchv1.Job{job("team", "a", "a")}, pod: "a", of: "a", pods: 1, all: 1, top: "a"},
		"two":                    {jobs: []*batchv1.Job{job("team", "a", "b"), job("team", "b", "a")}, pod: "a", of: "a", pods: 1, all: 1, top: "a"},
		"below a circle":         {jobs: []*batchv1.Job{job("team", "c", "a"), job("team", "a", "b"), job("team", "b", "a")}, pod: "c", of: "a", pods: 1, all: 2, top: "a"},
		"of another's namespace": {jobs: []*batchv1.Job{job("other", "a", "")}, pod: "a", of: "a", pods: 0, all: 1, top: "pod-of-a"},
		"three above each other": {jobs: chain(3), pod: "j2", of: "j0", pods: 1, all: 3, top: "j0"},
		"a UID twice":            {jobs: []*batchv1.Job{job("team", "a", ""), job("team", "a", "a")}, pod: "a", of: "a", pods: 1, all: 1, top: "a"},
		"a circle by a UID":      {jobs: []*batchv1.Job{job("team", "a", ""), job("team", "b", "a"), job("team", "a", "b")}, pod: "b", of: "a", pods: 0, all: 1, top: "b"},
		"a long chain":           {jobs: chain(50000), pod: "j49999", of: "j0", pods: 0, all: mostOwners},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{Objects: Objects{Jobs: c.jobs, Pods: []*corev1.Pod{pod(c.pod)}}}
			of := f.ObjectOf(types.UID(c.of))
			if got := len(f.PodsMadeBy(of)); got != c.pods {
				t.Errorf("%d pods, want %d", got, c.pods)
			}
			if got := len(f.PodOwners(of)); got != c.all {
				t.Errorf("%d owners of pods, want %d", got, c.all)
			}
			up := 0
			var at Object = f.Pods[0]
			for f.Controller(at) != nil && up <= mostOwners {
				at, up = f.Controller(at), up+1
			}
			if c.top != "" && at.GetName() != c.top || up >= mostOwners {
				t.Errorf("the topmost owner is %s, %d above the pod; want %s", at.GetName(), up, c.top)
			}
		})
	}
}
