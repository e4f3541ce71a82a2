package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

const kueueKind = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: "

// kueueing is a cluster of two nodes with four GPUs each, and a ClusterQueue of six with a LocalQueue.
func kueueing(t *testing.T, more ...string) *speaking {
	return speak(t, "kueue", append([]string{
		kueueKind + "ResourceFlavor, metadata: {name: gpus}, spec: {nodeLabels: {rack: r}}}",
		kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 6}]}]}]}}",
		kueueKind + "LocalQueue, metadata: {name: q, namespace: default}, spec: {clusterQueue: team}}",
	}, more...)...)
}

// queued is a suspended Job of pods with one GPU each that names a LocalQueue.
func queued(name, queue string, pods int32) *batchv1.Job {
	j := job(name, pods)
	yes := true
	j.Generation, j.ResourceVersion, j.Spec.Suspend, j.Labels = 1, "100", &yes, map[string]string{"kueue.x-k8s.io/queue-name": queue}
	j.Spec.Template.Spec = pod("", 1).Spec
	return j
}

func (s *speaking) starts(t *testing.T) []engine.Start {
	t.Helper()
	s.Settle()
	r := s.state.Apply(numbered(s.state, s.changes.take())...)
	if r = slices.DeleteFunc(r, func(r engine.Rejected) bool { return r.Kind == engine.KindGang }); len(r) > 0 { // what awaits something
		t.Fatalf("the engine rejects %v", r)
	}
	p := s.state.Plan(s.now)
	s.state.Apply(p.Changes...)
	return s.Checked(&p)
}

// numbered gives edits of the engine's memory versions, as the scheduler does.
func numbered(s *engine.State, list []engine.Change) []engine.Change {
	latest := s.Dump().Latest
	for i := range list {
		if r, ok := list[i].Ref(); ok {
			latest = max(latest, r.Version)
		}
		if g := list[i].Gone; g != nil {
			latest = max(latest, g.Version)
		}
	}
	for i := range list {
		switch c := &list[i]; {
		case c.Hold != nil && c.Hold.Version == 0:
			latest++
			c.Hold.Version = latest
		case c.Gone != nil && c.Gone.Version == 0:
			latest++
			c.Gone.Version = latest
		}
	}
	return list
}

// checkedQueue has an admission check, and its Job's Workload says how far that is.
const checkedQueue = kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, admissionChecksStrategy: {admissionChecks: [{name: c}]}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 6}]}]}]}}"

// A workload with an admission check has its quota first, which others do not get meanwhile, and starts once the check is ready. Where
// the check declines, or somebody with a higher priority takes the place, the quota is another's.
func TestKueueChecksAfterQuota(t *testing.T) {
	class := kueueKind + "WorkloadPriorityClass, metadata: {name: high}, value: 100}"
	start := func(t *testing.T, queue string) (*speaking, string) {
		s := kueueing(t, kueueKind+"AdmissionCheck, metadata: {name: c}, spec: {controllerName: x}}", class, queue)
		s.Set(queued("first", "q", 4))
		if got := s.starts(t); len(got) != 0 {
			t.Fatalf("it starts with a check that is pending: %+v", got)
		}
		s.Set(queued("second", "q", 4))
		if got := s.starts(t); len(got) != 0 {
			t.Fatalf("the quota is given away: %+v", got)
		}
		g := s.ForeignGroups()
		if len(g) != 2 || !g[0].State.Reserved || g[0].State.Flavor == nil || g[1].State.Reserved {
			t.Fatalf("groups %+v", g)
		}
		if q := s.ForeignQueues(); q[0].State.Reserved != 1 || q[0].State.Waiting != 2 {
			t.Fatalf("queue %+v", q[0].State)
		}
		return s, g[0].Ref.Name
	}
	says := func(s *speaking, t *testing.T, name, state string) {
		s.foreign1(t, kueueKind+"Workload, metadata: {name: "+name+", namespace: default, labels: {app.kubernetes.io/managed-by: berth}}, spec: {queueName: q}, status: {admissionChecks: [{name: c, state: "+state+"}]}}")
	}
	t.Run("ready", func(t *testing.T) {
		s, name := start(t, checkedQueue)
		says(s, t, name, "Ready")
		got := s.starts(t)
		if len(got) != 1 || len(got[0].Placements) != 4 || s.Entry(&got[0]) == nil {
			t.Fatalf("starts %+v", got)
		}
		if g := s.ForeignGroups(); !g[0].State.Reserved {
			t.Error("it has no quota while it is let in")
		}
		s.Entered(&got[0])
		if got := s.starts(t); len(got) != 0 || len(s.checked.reserved) != 0 {
			t.Errorf("starts %+v, reserved %v", got, s.checked.reserved)
		}
	})
	for _, state := range []string{"Retry", "Rejected"} {
		t.Run(state, func(t *testing.T) {
			s, name := start(t, checkedQueue)
			says(s, t, name, state)
			s.starts(t)
			if g := s.ForeignGroups(); g[0].State.Reserved || !g[1].State.Reserved {
				t.Errorf("groups %+v", g)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		s, _ := start(t, checkedQueue)
		s.Remove(queued("first", "q", 4))
		s.starts(t)
		if g := s.ForeignGroups(); !g[len(g)-1].State.Reserved || len(s.checked.reserved) != 1 {
			t.Errorf("groups %+v", g)
		}
	})
	t.Run("outbid", func(t *testing.T) {
		s, _ := start(t, strings.Replace(checkedQueue, "namespaceSelector: {}", "namespaceSelector: {}, preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}", 1))
		j := queued("third", "q", 4)
		j.Labels["kueue.x-k8s.io/priority-class"] = "high"
		s.Set(j)
		s.starts(t)
		s.starts(t)
		if g := s.ForeignGroups(); g[0].State.Reserved || !g[2].State.Reserved {
			t.Errorf("groups %+v", g)
		}
	})
	t.Run("alone", func(t *testing.T) {
		s := kueueing(t, kueueKind+"AdmissionCheck, metadata: {name: c}, spec: {controllerName: x}}", checkedQueue)
		p := pod("p", 1)
		p.UID, p.Labels = "p", map[string]string{"kueue.x-k8s.io/queue-name": "q"}
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
		Trim(p)
		s.Set(p)
		if got := s.starts(t); len(got) != 0 {
			t.Fatalf("starts %+v", got)
		}
		s.starts(t)
		g := s.ForeignGroups()
		if !g[0].State.Reserved {
			t.Fatalf("groups %+v", g)
		}
		says(s, t, g[0].Ref.Name, "Ready")
		if got := s.starts(t); len(got) != 1 {
			t.Errorf("starts %+v", got)
		}
	})
	t.Run("later", func(t *testing.T) {
		s, name := start(t, checkedQueue)
		s.foreign1(t, kueueKind+"Workload, metadata: {name: "+name+", namespace: default, labels: {app.kubernetes.io/managed-by: berth}}, spec: {queueName: q}, status: {requeueState: {requeueAt: '"+s.now.Add(time.Minute).UTC().Format(time.RFC3339)+"'}}}")
		s.starts(t)
		if g := s.ForeignGroups(); g[0].State.Reserved || !g[1].State.Reserved {
			t.Errorf("groups %+v", g)
		}
		s.Remove(queued("second", "q", 4))
		s.now = s.now.Add(2 * time.Minute)
		s.starts(t)
		if g := s.ForeignGroups(); !g[0].State.Reserved {
			t.Errorf("groups %+v", g)
		}
	})
}

// Suspended Jobs are scheduled as the pods that they will have, whole, within the quota of their ClusterQueue.
func TestKueueDecides(t *testing.T) {
	for name, c := range map[string]struct {
		more []string
		job  *batchv1.Job
		want int
	}{
		"whole":           {job: queued("j", "q", 6), want: 6},
		"above the quota": {job: queued("j", "q", 7)},
		"no LocalQueue":   {job: queued("j", "nobody", 1)},
		"another scheduler": {job: func() *batchv1.Job {
			j := queued("j", "q", 1)
			j.Spec.Template.Spec.SchedulerName = "other"
			return j
		}()},
		"not suspended": {job: func() *batchv1.Job {
			j := queued("j", "q", 1)
			j.Spec.Suspend = nil
			return j
		}()},
		"only limits": {job: func() *batchv1.Job {
			j := queued("j", "q", 7)
			j.Spec.Template.Spec.Containers[0].Resources.Requests = nil
			return j
		}()},
		"not covered": {job: func() *batchv1.Job {
			j := queued("j", "q", 1)
			j.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/x": j.Spec.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"]}
			return j
		}()},
		"a flavor that no node has": {more: []string{kueueKind + "ResourceFlavor, metadata: {name: gpus}, spec: {nodeLabels: {rack: z}}}"}, job: queued("j", "q", 1)},
		"stopped":                   {more: []string{kueueKind + "LocalQueue, metadata: {name: q, namespace: default}, spec: {clusterQueue: team, stopPolicy: Hold}}"}, job: queued("j", "q", 1)},
		"with a check": {
			more: []string{kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, admissionChecksStrategy: {admissionChecks: [{name: c}]}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 6}]}]}]}}"},
			job:  queued("j", "q", 1),
		},
		"borrowing": {
			more: []string{
				kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}]}]}}",
				kueueKind + "ClusterQueue, metadata: {name: other}, spec: {namespaceSelector: {}, cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]}}",
			},
			job: queued("j", "q", 5), want: 5,
		},
		"not beyond the cohort": {
			more: []string{
				kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}]}]}}",
				kueueKind + "ClusterQueue, metadata: {name: other}, spec: {namespaceSelector: {}, cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]}}",
			},
			job: queued("j", "q", 6),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := kueueing(t, c.more...)
			s.Set(c.job)
			if diff := cmp.Diff(c.want, s.places(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A Job that was let in keeps its quota and places until it has made its pods; suspended again, it waits again.
func TestKueueLetsIn(t *testing.T) {
	s := kueueing(t)
	first, second := queued("first", "q", 4), queued("second", "q", 4)
	s.Set(first)
	starts := s.starts(t)
	if len(starts) != 1 || len(starts[0].Placements) != 4 {
		t.Fatalf("starts %+v", starts)
	}
	e := s.Entry(&starts[0])
	if e == nil || e.Name != "first" || e.Flavor == nil || e.Flavor.Names["nvidia.com/gpu"] != "gpus" {
		t.Fatalf("entry %+v", e)
	}
	s.Entered(&starts[0])
	no := false
	first = first.DeepCopy()
	first.Spec.Suspend, first.Generation, first.ResourceVersion = &no, 2, "101"
	s.Set(first)
	s.Set(second)
	if starts := s.starts(t); len(starts) != 0 {
		t.Fatalf("the quota is given away: %+v", starts)
	}
	bound := 0
	for i := range 4 { // the Job makes its pods, one after the other
		p := ownedPod("first", i)
		p.UID, p.ResourceVersion, p.Labels = types.UID(p.Name), fmt.Sprint(110+i), nil
		s.Set(p)
		for _, b := range s.starts(t) {
			for _, at := range b.Placements {
				if strings.Contains(at.Pod, expectedMark) {
					t.Fatalf("an expected pod starts: %+v", b)
				}
				next := p.DeepCopy()
				next.Spec.NodeName, next.ResourceVersion = at.Node, fmt.Sprint(120+i)
				s.Set(next)
				bound++
			}
		}
	}
	if bound != 4 {
		t.Errorf("%d of 4 pods are bound", bound)
	}
	g := s.ForeignGroups()
	if len(g) != 2 || g[0].State.Running != 4 || g[0].State.Pending != 0 || g[1].State.Pending != 4 || g[1].State.Running != 0 {
		t.Errorf("groups %+v", g)
	}
	if name, uid, ok := s.JobOf("default/first-0"); !ok || name.Name != "first" || uid != first.UID {
		t.Errorf("the Job of a pod is %v %v", name, ok)
	}
}

// A Job whose Workload is deactivated, or whose LocalQueue is drained, is to be suspended while it runs.
func TestKueueEnds(t *testing.T) {
	for want, change := range map[string]func(name string) string{
		"Deactivated": func(name string) string {
			return kueueKind + "Workload, metadata: {name: " + name + ", namespace: default, labels: {app.kubernetes.io/managed-by: berth}}, spec: {queueName: q, active: false}}"
		},
		"LocalQueueStopped": func(string) string {
			return kueueKind + "LocalQueue, metadata: {name: q, namespace: default}, spec: {clusterQueue: team, stopPolicy: HoldAndDrain}}"
		},
		"": func(string) string {
			return kueueKind + "LocalQueue, metadata: {name: q, namespace: default}, spec: {clusterQueue: team, stopPolicy: Hold}}"
		},
	} {
		s := kueueing(t)
		j := queued("j", "q", 1)
		s.Set(j)
		starts := s.starts(t)
		if len(starts) != 1 || s.Entry(&starts[0]) == nil {
			t.Fatalf("starts %+v", starts)
		}
		s.Entered(&starts[0])
		no := false
		j = j.DeepCopy()
		j.Spec.Suspend, j.Generation, j.ResourceVersion = &no, 2, "101"
		s.Set(j)
		p := ownedPod("j", 0)
		p.UID, p.ResourceVersion, p.Labels, p.Spec.NodeName = types.UID(p.Name), "110", nil, "n0"
		s.Set(p)
		s.starts(t)
		g := s.ForeignGroups()
		if len(g) != 1 || g[0].Ends != nil || g[0].State.Running != 1 {
			t.Fatalf("groups %+v", g)
		}
		s.foreign1(t, change(g[0].Ref.Name))
		s.starts(t)
		if g = s.ForeignGroups(); g[0].State.Ends != want || (g[0].Ends != nil) != (want != "") {
			t.Errorf("%s: groups %+v", want, g)
		}
	}
}

// While Kueue's own controller runs nobody is let in, and its queues are not Berth's.
func TestKueueHasARival(t *testing.T) {
	s := kueueing(t)
	s.Set(queued("j", "q", 1))
	d := all.Find("kueue")
	if !s.SetRival(d, "it runs") || s.SetRival(d, "it runs") {
		t.Error("a change is not told once")
	}
	if n, q := s.places(t), s.Queues(); n != 0 || len(q) != 0 {
		t.Errorf("%d pods start, queues %v", n, q)
	}
	s.SetRival(d, "")
	if n := s.places(t); n != 1 {
		t.Errorf("%d pods start once it is gone", n)
	}
}

// A pod with Kueue's gate is scheduled, one with another gate besides is not.
func TestKueueGates(t *testing.T) {
	for want, gates := range map[int][]string{1: {"kueue.x-k8s.io/admission"}, 0: {"kueue.x-k8s.io/admission", "example.com/other"}} {
		s := kueueing(t)
		p := pod("p", 1)
		p.UID, p.Labels = "p", map[string]string{"kueue.x-k8s.io/queue-name": "q"}
		for _, g := range gates {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: g})
		}
		Trim(p)
		s.Set(p)
		if n := s.places(t); n != want {
			t.Errorf("with %v %d pods start", gates, n)
		}
	}
}

var _ dialect.Admitter = all.Find("kueue").(dialect.Admitter)

// recall has workloads that had quota before the restart have it again, as the scheduler does before its first plan.
func (s *speaking) recall(t *testing.T) {
	t.Helper()
	settle := func() {
		s.Settle()
		if r := s.state.Apply(numbered(s.state, s.changes.take())...); len(r) > 0 {
			t.Fatalf("the engine rejects %v", r)
		}
	}
	if settle(); s.Recalling() {
		settle()
		p := s.state.Plan(s.now)
		s.Recall(&p)
		settle()
	}
}

// A workload that had quota and waits for its check has it again after a restart, though another of a higher priority, which evicts
// nobody, has come since. Whoever says so later, or awaits something, gets nothing before its turn.
func TestKueueQuotaOutlastsARestart(t *testing.T) {
	class := kueueKind + "WorkloadPriorityClass, metadata: {name: high}, value: 100}"
	restarted := func(t *testing.T, conditions string) *speaking {
		s := kueueing(t, kueueKind+"AdmissionCheck, metadata: {name: c}, spec: {controllerName: x}}", class, checkedQueue)
		first, second := queued("first", "q", 4), queued("second", "q", 4)
		second.Labels["kueue.x-k8s.io/priority-class"] = "high"
		s.Set(first)
		s.Set(second)
		s.Settle()
		name := s.ForeignGroups()[0].Ref.Name
		s.foreign1(t, kueueKind+"Workload, metadata: {name: "+name+", namespace: default, labels: {app.kubernetes.io/managed-by: berth}}, spec: {queueName: q}, status: {admissionChecks: [{name: c, state: Pending}], conditions: ["+conditions+"]}}")
		return s
	}
	has := func(t *testing.T, s *speaking) string {
		t.Helper()
		if got := s.starts(t); len(got) != 0 {
			t.Fatalf("one starts with a check that is pending: %+v", got)
		}
		var names []string
		for _, g := range s.ForeignGroups() {
			if g.State.Reserved {
				names = append(names, strings.Split(g.Ref.Name, "-")[1])
			}
		}
		return strings.Join(names, " ")
	}
	const yes, no = "{type: QuotaReserved, status: 'True'}", "{type: QuotaReserved, status: 'False'}"
	for name, c := range map[string]struct{ conditions, want string }{
		"had quota":      {yes, "first"},
		"had none":       {no, "second"},
		"runs, it says":  {yes + ", {type: Admitted, status: 'True'}", "second"},
		"says not a lot": {"", "second"},
	} {
		t.Run(name, func(t *testing.T) {
			s := restarted(t, c.conditions)
			s.recall(t)
			if got := has(t, s); got != c.want {
				t.Errorf("%q has quota, want %q", got, c.want)
			}
			if s.Recalling() {
				t.Error("they are looked for again")
			}
		})
	}
	nodes := func(s *speaking, version string, gpus int64) {
		for i := range 2 {
			n := node(fmt.Sprintf("n%d", i), "r", gpus)
			n.ResourceVersion = version
			s.Set(n)
		}
	}
	t.Run("its nodes come back later", func(t *testing.T) {
		s := restarted(t, yes)
		nodes(s, "200", 0)
		s.recall(t)
		nodes(s, "201", 4)
		s.now = s.now.Add(recallFor - time.Second)
		s.recall(t)
		if got := has(t, s); got != "first" {
			t.Errorf("%q has quota, want first", got)
		}
	})
	t.Run("its nodes are gone", func(t *testing.T) {
		s := restarted(t, yes)
		nodes(s, "200", 0)
		s.recall(t)
		s.now = s.now.Add(recallFor)
		s.recall(t)
		if got := has(t, s); got != "" {
			t.Errorf("%q has quota", got)
		}
		for _, g := range s.state.Plan(s.now).Waiting {
			if slices.ContainsFunc(g.Gates, func(w why.Gate) bool { return w.Cause == why.WorkloadHeld }) {
				t.Errorf("%s is still held", g.Gang)
			}
		}
	})
}
