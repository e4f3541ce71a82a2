package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// speaking is a cluster of two nodes with four GPUs each, in which a dialect is in use.
type speaking struct {
	*clock
	state *engine.State
	uid   int
}

func speak(t *testing.T, name string, objects ...string) *speaking {
	t.Helper()
	s := &speaking{clock: newClock()}
	s.Speak(all.Find(name))
	s.state = engine.Load(engine.Snapshot{}, engine.Config{})
	for i := range 2 {
		s.Set(node(fmt.Sprintf("n%d", i), "r", 4))
	}
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{corev1.LabelMetadataName: "default"}}})
	for _, text := range objects {
		s.foreign1(t, text)
	}
	return s
}

func (s *speaking) foreign1(t *testing.T, text string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	s.uid++
	u.SetUID(types.UID(fmt.Sprintf("foreign-%d", s.uid)))
	u.SetGeneration(1)
	s.Set(u)
}

// add brings pods of the scheduler with the labels and annotations, one for each number of GPUs.
func (s *speaking) add(scheduler, name string, labels, annotations map[string]string, gpus ...int64) {
	for i, n := range gpus {
		p := pod(fmt.Sprintf("%s-%d", name, i), n)
		p.UID, p.Spec.SchedulerName, p.Labels, p.Annotations = types.UID(p.Name), scheduler, labels, annotations
		s.Set(p)
	}
}

// places is how many pods a plan gives a place.
func (s *speaking) places(t *testing.T) int {
	t.Helper()
	s.Settle()
	if r := s.state.Apply(s.changes.take()...); len(r) > 0 {
		t.Fatalf("the engine rejects %v", r)
	}
	n := 0
	for _, b := range s.state.Plan(s.now).Starts {
		n += len(b.Placements)
	}
	return n
}

type said = map[string]string

// What Volcano's users write decides what is placed: minimums of groups and of tasks, capabilities of queues.
func TestVolcanoDecides(t *testing.T) {
	queues := []string{
		"{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}",
		"{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: small}, spec: {capability: {nvidia.com/gpu: 2}}}",
	}
	group := func(spec string) string {
		return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g, namespace: default}, spec: " + spec + "}"
	}
	in, task := said{"scheduling.volcano.sh/group-name": "g"}, func(name string) said {
		return said{"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": name}
	}
	for name, c := range map[string]struct {
		group string
		add   func(*speaking)
		want  int
	}{
		"whole":           {group("{minMember: 4}"), func(s *speaking) { s.add("volcano", "p", nil, in, 2, 2, 2, 2) }, 4},
		"not whole":       {group("{minMember: 5}"), func(s *speaking) { s.add("volcano", "p", nil, in, 2, 2, 2, 2, 2) }, 0},
		"pods missing":    {group("{minMember: 4}"), func(s *speaking) { s.add("volcano", "p", nil, in, 1, 1, 1) }, 0},
		"more than least": {group("{minMember: 2}"), func(s *speaking) { s.add("volcano", "p", nil, in, 2, 2, 2, 2, 2) }, 4},
		"above the queue": {group("{minMember: 3, queue: small}"), func(s *speaking) { s.add("volcano", "p", nil, in, 1, 1, 1) }, 0},
		"in the queue":    {group("{minMember: 1, queue: small}"), func(s *speaking) { s.add("volcano", "p", nil, in, 1, 1, 1) }, 2},
		"no queue":        {group("{minMember: 1, queue: nobody}"), func(s *speaking) { s.add("volcano", "p", nil, in, 1) }, 0},
		"no group yet":    {queues[0], func(s *speaking) { s.add("volcano", "p", nil, in, 1) }, 0},
		"tasks": {group("{minMember: 3, minTaskMember: {master: 1, worker: 2}}"), func(s *speaking) {
			s.add("volcano", "m", nil, task("master"), 1)
			s.add("volcano", "w", nil, task("worker"), 4, 2)
		}, 3},
		"a task missing": {group("{minMember: 3, minTaskMember: {master: 1, worker: 2}}"), func(s *speaking) {
			s.add("volcano", "m", nil, task("master"), 1, 1)
			s.add("volcano", "w", nil, task("worker"), 1)
		}, 0},
		"alone": {queues[0], func(s *speaking) { s.add("volcano", "p", nil, nil, 1, 1) }, 2},
		"by its own queue": {queues[0], func(s *speaking) {
			s.add("volcano", "p", nil, said{"scheduling.volcano.sh/queue-name": "small"}, 1, 1, 1)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := speak(t, "volcano", append(queues, c.group)...)
			c.add(s)
			if diff := cmp.Diff(c.want, s.places(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Work that may not be evicted starts within what its queue deserves: root, which Volcano makes with nothing in it, has as much as the
// queues below it, whichever was made first.
func TestVolcanoRootDeservesWhatIsBelow(t *testing.T) {
	const root, eng = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: root}}",
		"{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: eng}, spec: {deserved: {nvidia.com/gpu: 4}}}"
	for _, queues := range [][]string{{root, eng}, {eng, root}} {
		s := speak(t, "volcano", queues...)
		s.add("volcano", "p", nil, said{"scheduling.volcano.sh/queue-name": "eng", "volcano.sh/preemptable": "false"}, 3, 3)
		if diff := cmp.Diff(1, s.places(t)); diff != "" {
			t.Error(diff)
		}
	}
}

// A pod that names a PodGroup is placed once somebody makes it.
func TestGroupComesAfterItsPods(t *testing.T) {
	for scheduler, c := range map[string]struct {
		labels, annotations said
		group               string
	}{
		"volcano":                     {annotations: said{"scheduling.volcano.sh/group-name": "g"}, group: "scheduling.volcano.sh/v1beta1"},
		"scheduler-plugins-scheduler": {labels: said{"scheduling.x-k8s.io/pod-group": "g"}, group: "scheduling.x-k8s.io/v1alpha1"},
	} {
		name := map[string]string{"volcano": "volcano"}[scheduler]
		if name == "" {
			name = "coscheduling"
		}
		s := speak(t, name, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}")
		s.add(scheduler, "p", c.labels, c.annotations, 1, 1)
		before := s.places(t)
		s.foreign1(t, "{apiVersion: "+c.group+", kind: PodGroup, metadata: {name: g, namespace: default}, spec: {minMember: 2}}")
		if after := s.places(t); before != 0 || after != 2 {
			t.Errorf("%s: %d pods are placed without the group, %d with it", scheduler, before, after)
		}
	}
}

// What users of coscheduling and of capacity scheduling write decides what is placed.
func TestCoschedulingDecides(t *testing.T) {
	const scheduler = "scheduler-plugins-scheduler"
	group := func(spec string) string {
		return "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: default}, spec: " + spec + "}"
	}
	quota := "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: q, namespace: default}, spec: {min: {nvidia.com/gpu: 2}, max: {nvidia.com/gpu: 3}}}"
	in := said{"scheduling.x-k8s.io/pod-group": "g"}
	for name, c := range map[string]struct {
		objects []string
		labels  said
		gpus    []int64
		want    int
	}{
		"at least three":    {[]string{group("{minMember: 3}")}, in, []int64{2, 2, 2, 2, 2, 2}, 4},
		"at least five":     {[]string{group("{minMember: 5}")}, in, []int64{2, 2, 2, 2, 2, 2}, 0},
		"pods missing":      {[]string{group("{minMember: 5}")}, in, []int64{1, 1}, 0},
		"up to the maximum": {[]string{quota}, nil, []int64{1, 1, 1, 1}, 3},
		"a group beyond it": {[]string{quota, group("{minMember: 4}")}, in, []int64{1, 1, 1, 1}, 0},
		"without a quota":   {nil, nil, []int64{1, 1, 1, 1}, 4},
		"as it once was":    {nil, said{"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}, []int64{4, 4, 4}, 0},
		"and with room":     {nil, said{"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}, []int64{4, 4, 4}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := speak(t, "coscheduling", c.objects...)
			s.add(scheduler, "p", c.labels, nil, c.gpus...)
			if diff := cmp.Diff(c.want, s.places(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod with keys of two projects is scheduled by those of one, whichever dialect was taken up first: the one that lets it into a queue, else
// that of its scheduler's name. The keys of the other are told.
func TestTwoDialectsOfAPod(t *testing.T) {
	objects := []string{
		"{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: wide}}",
		"{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: narrow}, spec: {resources: {gpu: {quota: 2, limit: 2}}}}",
		kueueKind + "ResourceFlavor, metadata: {name: any}}",
		kueueKind + "ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]}}",
		kueueKind + "LocalQueue, metadata: {name: q, namespace: default}, spec: {clusterQueue: team}}",
	}
	const local, volcano, kai = "kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "kai.scheduler/queue"
	for name, c := range map[string]struct {
		scheduler string
		labels    said
		want      int
		told      []string
	}{
		"Kueue before the scheduler": {"volcano", said{local: "q", volcano: "wide"}, 3, []string{volcano + " (without effect)"}},
		"Kueue alone":                {"default-scheduler", said{local: "q"}, 3, nil},
		"a scheduler without keys":   {"volcano", said{local: "q"}, 3, nil},
		"the scheduler's name":       {"kai-scheduler", said{kai: "narrow", volcano: "wide"}, 2, []string{volcano + " (without effect)"}},
		"the other's name":           {"volcano", said{kai: "narrow", volcano: "wide"}, 5, []string{kai + " (without effect)"}},
		"a quota of the namespace":   {"default-scheduler", said{local: "q"}, 3, []string{"queue eq-default of coscheduling (without effect)"}},
		"Kueue's key and no queue":   {"kai-scheduler", said{kai: "narrow", "kueue.x-k8s.io/retriable": "x"}, 2, []string{"kueue.x-k8s.io/retriable (without effect)"}},
	} {
		t.Run(name, func(t *testing.T) {
			order := []string{"coscheduling", "kai", "kueue", "volcano"}
			rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			s := &speaking{clock: newClock()}
			s.opts.SchedulerNames = []string{"berth", "default-scheduler"}
			for _, d := range order {
				s.Speak(all.Find(d))
			}
			s.state = engine.Load(engine.Snapshot{}, engine.Config{})
			s.Set(node("n0", "r", 8))
			s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{corev1.LabelMetadataName: "default"}}})
			for _, text := range objects {
				s.foreign1(t, text)
			}
			if name == "a quota of the namespace" {
				s.foreign1(t, "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: e, namespace: default}, spec: {max: {nvidia.com/gpu: 1}}}")
			}
			s.add(c.scheduler, "p", c.labels, nil, 1, 1, 1, 1, 1)
			if got := s.places(t); got != c.want {
				t.Errorf("%d pods of 5 are placed, want %d (dialects %v)", got, c.want, order)
			}
			if diff := cmp.Diff(c.told, s.unheeded(s.members.pods["default/p-0"])); diff != "" {
				t.Error(diff)
			}
		})
	}
}
