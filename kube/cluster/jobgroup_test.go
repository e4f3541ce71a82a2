package cluster

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// A Job whose pods are one of Berth's gangs is made anew: the old one's pods and group go while the new one's come. Whatever the
// order in which the watches bring it, in the end the gang has the new pods, and no others.
func TestGangOfJobMadeAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newClock()
		state := engine.Load(engine.Snapshot{}, engine.Config{})
		version := 0
		next := func() string { version++; return fmt.Sprint(version) }
		groupOf := func(name string) *schedulingv1beta1.PodGroup {
			g := group(name, 0)
			g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
			g.UID, g.ResourceVersion = types.UID(name), next()
			g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: types.UID("job of " + name), Controller: new(true)}}
			return g
		}
		podOf := func(name, in string) *corev1.Pod {
			return edited(grouped(name, in), func(p *corev1.Pod) {
				p.UID, p.ResourceVersion, p.Annotations["berth.dev/gang"] = types.UID(name), next(), "g"
				if in == "old" {
					p.Annotations["berth.dev/topology-required"] = "rack"
				}
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: types.UID("job of " + in), Controller: new(true)}}
			})
		}
		jobOf := func(of string) *batchv1.Job {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train", UID: types.UID("job of " + of), ResourceVersion: next()}, Spec: batchv1.JobSpec{Parallelism: new(int32(4)), Completions: new(int32(4))}}
			j.Spec.Template.Annotations = map[string]string{"berth.dev/gang": "g"}
			j.Spec.Template.Spec.SchedulerName = DefaultName
			return j
		}
		var groups, pods, jobs, coming []func()
		was, is := jobOf("old"), jobOf("new")
		jobs = append(jobs, func() { f.Set(was) }, func() { f.Remove(was) }, func() { f.Set(is) })
		old, anew := groupOf("old"), groupOf("new")
		groups = append(groups, func() { f.Set(old) }, func() { f.Remove(old) }, func() { f.Set(anew) })
		for i := range 4 {
			p := podOf(fmt.Sprintf("old-%d", i), "old")
			pods = append(pods, func() { f.Set(p) })
		}
		for i := range 4 {
			p := podOf(fmt.Sprintf("old-%d", i), "old")
			p.DeletionTimestamp = new(metav1.Now())
			if rapid.Bool().Draw(t, "terminating") {
				pods = append(pods, func() { f.Set(p) })
			}
			pods = append(pods, func() { f.Remove(p) })
		}
		for i := range 4 {
			p := podOf(fmt.Sprintf("new-%d", i), "new")
			coming = append(coming, func() { f.Set(p) })
		}
		// The old one is there, and decided about.
		jobs[0]()
		groups[0]()
		for _, come := range pods[:4] {
			come()
		}
		f.Settle()
		jobs, groups, pods = jobs[1:], groups[1:], pods[4:]
		if f.members.pods["default/old-0"].terms == nil {
			t.Fatal("undecided")
		}
		for {
			var left []*[]func()
			for _, from := range []*[]func(){&groups, &pods, &jobs, &coming} {
				if len(*from) > 0 {
					left = append(left, from)
				}
			}
			if len(left) == 0 {
				break
			}
			from := rapid.SampledFrom(left).Draw(t, "from")
			(*from)[0]()
			*from = (*from)[1:]
			if rapid.Bool().Draw(t, "settle") {
				f.Settle()
				if r := state.Apply(f.changes.take()...); len(r) > 0 {
					t.Fatalf("the engine rejects %v", r)
				}
				state.Plan(f.now)
			}
		}
		f.Settle()
		for i := range 4 {
			key := fmt.Sprintf("default/new-%d", i)
			if got := f.Find(key); got.Workload != "default/gang/g" {
				t.Fatalf("%s is in %q", key, got.Workload)
			}
		}
		if r := state.Apply(f.changes.take()...); len(r) > 0 {
			t.Fatalf("the engine rejects %v", r)
		}
		for _, w := range state.Plan(f.now).Waiting {
			if w.Gang != "default/gang/g" || w.Cause == why.GangIncomplete {
				t.Fatalf("%s waits: %v", w.Gang, w)
			}
		}
	})
}
