package cluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

const (
	trainSet = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train, namespace: default}, spec: {replicatedJobs: [
		{name: driver, template: {spec: {}}}, {name: worker, replicas: 2, template: {spec: {parallelism: 2, completions: 2}}}]}}`
	rayOf2 = `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: ray, namespace: default}, spec: {enableInTreeAutoscaling: true, workerGroupSpecs: [
		{groupName: gpu, replicas: 2, minReplicas: 2, maxReplicas: 8}]}}`
	groveOf2 = `{apiVersion: scheduler.grove.io/v1alpha1, kind: PodGang, metadata: {name: serve-0, namespace: default}, spec: {podgroups: [
		{name: serve-0-a, minReplicas: 1, podReferences: [{name: a}]}, {name: serve-0-b, minReplicas: 2, podReferences: [{name: b}, {name: c}]}]}}`
)

func ofSet(role string) said {
	return said{"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": role}
}

func ofRay(kind, group string) said {
	return said{"ray.io/cluster": "ray", "ray.io/node-type": kind, "ray.io/group": group}
}

func ofGrove(clique string) said {
	return said{"grove.io/podgang": "serve-0", "grove.io/podclique": "serve-0-" + clique}
}

// TestMadeTogether places pods of workload controllers on eight GPUs: all that start together, or none.
func TestMadeTogether(t *testing.T) {
	for name, c := range map[string]struct {
		dialect, object string
		add             func(*speaking)
		want            int
	}{
		"whole": {"", trainSet, func(s *speaking) {
			s.add("berth", "d", ofSet("driver"), nil, 0)
			s.add("berth", "w", ofSet("worker"), nil, 2, 2, 2, 2)
		}, 5},
		"no room for one": {"", trainSet, func(s *speaking) {
			s.add("berth", "d", ofSet("driver"), nil, 1)
			s.add("berth", "w", ofSet("worker"), nil, 2, 2, 2, 2)
		}, 0},
		"one is not made yet": {"", trainSet, func(s *speaking) {
			s.add("berth", "d", ofSet("driver"), nil, 0)
			s.add("berth", "w", ofSet("worker"), nil, 1, 1, 1)
		}, 0},
		"a role is not made yet": {"", trainSet, func(s *speaking) { s.add("berth", "w", ofSet("worker"), nil, 1, 1, 1, 1) }, 0},
		"the author says one by one": {"", trainSet, func(s *speaking) {
			s.add("berth", "w", ofSet("worker"), said{v1alpha1.KeyMin: "1", v1alpha1.KeyMinSubgroups: "1"}, 3, 3, 3)
		}, 2},
		"the author names a gang": {"", trainSet, func(s *speaking) {
			s.add("berth", "w", ofSet("worker"), said{v1alpha1.KeyGang: "mine"}, 1, 1)
		}, 2},
		"another scheduler's": {"", trainSet, func(s *speaking) { s.add("default-scheduler", "w", ofSet("worker"), nil, 1, 1, 1, 1) }, 0},
		"of KAI's users": {"kai", trainSet, func(s *speaking) {
			s.add("kai-scheduler", "w", ofSet("worker"), said{"kai.scheduler/queue": "q"}, 1, 1, 1)
		}, 0},
		"above the minimum": {"", rayOf2, func(s *speaking) {
			s.add("berth", "h", ofRay("head", "headgroup"), nil, 0)
			s.add("berth", "w", ofRay("worker", "gpu"), nil, 2, 2, 2, 4)
		}, 4},
		"below the minimum": {"", rayOf2, func(s *speaking) {
			s.add("berth", "h", ofRay("head", "headgroup"), nil, 0)
			s.add("berth", "w", ofRay("worker", "gpu"), nil, 4)
		}, 0},
		"cliques": {"", groveOf2, func(s *speaking) {
			s.add("berth", "a", ofGrove("a"), nil, 1)
			s.add("berth", "b", ofGrove("b"), nil, 2, 2)
		}, 3},
		"a clique has no room": {"", groveOf2, func(s *speaking) {
			s.add("berth", "a", ofGrove("a"), nil, 1)
			s.add("berth", "b", ofGrove("b"), nil, 4, 4)
		}, 0},
		"cliques of KAI's users": {"kai", groveOf2, func(s *speaking) {
			a, b := ofGrove("a"), ofGrove("b")
			a["kai.scheduler/queue"], b["kai.scheduler/queue"] = "q", "q"
			s.add("kai-scheduler", "a", a, nil, 1)
			s.add("kai-scheduler", "b", b, nil, 2, 2)
		}, 3},
		"a cluster without workers yet": {"", rayOf2, func(s *speaking) { s.add("berth", "h", ofRay("head", "headgroup"), nil, 0) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := made1(t, c.dialect, c.object)
			c.add(s)
			if got := s.started(); got != c.want {
				t.Errorf("%d pods are placed, want %d", got, c.want)
			}
		})
	}
}

// started is how many pods a plan gives a place. A gang of which whole roles are missing is no gang to the engine yet.
func (s *speaking) started() (n int) {
	s.Settle()
	s.state.Apply(s.changes.take()...)
	for _, b := range s.state.Plan(s.now).Starts {
		n += len(b.Placements)
	}
	return n
}

func made1(t *testing.T, dialect string, objects ...string) *speaking {
	t.Helper()
	s := speak(t, "coscheduling")
	if dialect != "" {
		s.Speak(all.Find(dialect))
		s.foreign1(t, "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: q}, spec: {resources: {gpu: {quota: 8, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}}")
	}
	s.Speak(controllers.New())
	for _, o := range objects {
		s.foreign1(t, o)
	}
	return s
}

// TestMakerComesLater holds a pod back whose JobSet has not been seen, and lets it go when that does not come.
func TestMakerComesLater(t *testing.T) {
	s := made1(t, "")
	p := pod("w-0", 1)
	p.UID, p.Labels, p.CreationTimestamp = "w", ofSet("worker"), metav1.NewTime(s.now)
	s.Set(p)
	if n := s.started(); n != 0 {
		t.Fatal("it starts though its JobSet may say that it is one of many")
	}
	s.foreign1(t, trainSet)
	if n := s.started(); n != 0 {
		t.Fatal("it starts without the four others of its JobSet")
	}
	other := pod("x-0", 1)
	other.UID, other.CreationTimestamp = "x", metav1.NewTime(s.now)
	other.Labels = said{"jobset.sigs.k8s.io/jobset-name": "gone", "jobset.sigs.k8s.io/replicatedjob-name": "worker"}
	s.Set(other)
	if n := s.started(); n != 0 {
		t.Fatal("it starts at once though its JobSet may come")
	}
	s.now = s.now.Add(ownerPatience + ownerGranularity)
	if n := s.started(); n != 1 {
		t.Errorf("%d pods are placed of a JobSet that does not come, want 1", n)
	}
}

// TestRoleIsOver replaces a member while another role of its gang is over.
func TestRoleIsOver(t *testing.T) {
	s := made1(t, "", trainSet)
	for _, p := range []*corev1.Pod{pod("d-0", 0), pod("w-0", 1), pod("w-1", 1), pod("w-2", 1)} {
		p.UID, p.Labels = types.UID(p.Name), ofSet("worker")
		p.Spec.NodeName, p.Status.Phase = "n0", corev1.PodRunning
		if p.Name == "d-0" {
			p.Labels, p.Status.Phase = ofSet("driver"), corev1.PodSucceeded
		}
		s.Set(p)
	}
	s.add("berth", "new", ofSet("worker"), nil, 1)
	if n := s.started(); n != 1 {
		t.Errorf("%d pods are placed, want the one that replaces a worker: %s", n, fmt.Sprint(s.gangs.described))
	}
}

// TestKueueOfMakers has a JobSet and a LeaderWorkerSet wait for quota as a whole: whose label names the queue, and whose pods are gated.
// One Workload stands for the JobSet, and one for each group of the LeaderWorkerSet.
func TestKueueOfMakers(t *testing.T) {
	const (
		queueName = "kueue.x-k8s.io/queue-name"
		flavor    = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}"
		local     = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: user, namespace: default}, spec: {clusterQueue: team}}"
		set       = `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: serve, namespace: default, labels: {kueue.x-k8s.io/queue-name: user}}, spec: {replicas: 2, leaderWorkerTemplate: {size: 2}}}`
	)
	of := func(index, worker string) said {
		return said{"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": index, "leaderworkerset.sigs.k8s.io/worker-index": worker, queueName: "user"}
	}
	for name, c := range map[string]struct {
		quota  int
		object string
		add    func(*speaking)
		want   int
		groups []string
	}{
		"a JobSet beyond its quota": {4, trainSet, func(s *speaking) {
			for _, role := range []string{"driver", "worker"} {
				labels := ofSet(role)
				labels[queueName] = "user"
				s.add("berth", role, labels, nil, map[string][]int64{"driver": {1}, "worker": {1, 1, 1, 1}}[role]...)
			}
		}, 0, []string{"jobset-train- 5"}},
		"a JobSet within it": {5, trainSet, func(s *speaking) {
			for _, role := range []string{"driver", "worker"} {
				labels := ofSet(role)
				labels[queueName] = "user"
				s.add("berth", role, labels, nil, map[string][]int64{"driver": {1}, "worker": {1, 1, 1, 1}}[role]...)
			}
		}, 5, []string{"jobset-train- 5"}},
		"one group of two": {3, set, func(s *speaking) {
			for _, index := range []string{"0", "1"} {
				s.add("berth", "l"+index, of(index, "0"), nil, 1)
				s.add("berth", "w"+index, of(index, "1"), nil, 1)
			}
		}, 2, []string{"leaderworkerset-serve-0- 2", "leaderworkerset-serve-1- 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			queue := fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}]}]}}", c.quota)
			s := speak(t, "kueue", flavor, queue, local)
			s.Speak(controllers.New())
			s.foreign1(t, c.object)
			c.add(s)
			if got := s.started(); got != c.want {
				t.Errorf("%d pods are placed, want %d", got, c.want)
			}
			var groups []string
			for _, g := range s.ForeignGroups() {
				u := g.Ref.Make()
				sets := u.Object["spec"].(map[string]any)["podSets"].([]any)
				groups = append(groups, fmt.Sprintf("%s %v", g.Ref.Name[:len(g.Ref.Name)-5], sets[0].(map[string]any)["count"]))
			}
			if diff := cmp.Diff(c.groups, groups); diff != "" {
				t.Errorf("Workloads (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKindServedLater holds back a pod whose object's kind nobody watches yet, says so, and has the gang once the kind is read.
func TestKindServedLater(t *testing.T) {
	s := speak(t, "coscheduling")
	for i := range 4 {
		p := pod(fmt.Sprintf("w-%d", i), 1)
		p.UID, p.Labels, p.CreationTimestamp = types.UID(p.Name), ofSet("worker"), metav1.NewTime(s.now)
		s.Set(p)
	}
	if n := s.started(); n != 0 {
		t.Fatalf("%d pods are placed though their JobSet may say that they are some of many", n)
	}
	if !s.MissedMaker() || s.MissedMaker() {
		t.Fatal("it is not said, or not once, that an object is missing")
	}
	s.Speak(controllers.New())
	s.foreign1(t, trainSet)
	if n := s.started(); n != 0 {
		t.Fatalf("%d pods are placed without the driver", n)
	}
	s.add("berth", "d", ofSet("driver"), nil, 1)
	if n := s.started(); n != 5 {
		t.Errorf("%d pods are placed, want 5", n)
	}
}

// TestMakerComesLaterForKAI places pods of another scheduler's users whose object comes after them.
func TestMakerComesLaterForKAI(t *testing.T) {
	s := made1(t, "kai")
	a, b := ofGrove("a"), ofGrove("b")
	a["kai.scheduler/queue"], b["kai.scheduler/queue"] = "q", "q"
	s.add("kai-scheduler", "a", a, nil, 1)
	s.add("kai-scheduler", "b", b, nil, 2, 2)
	s.foreign1(t, groveOf2)
	if got := s.started(); got != 3 {
		t.Errorf("%d pods are placed, want 3: %+v", got, s.state.Plan(s.now).Waiting)
	}
}
