package cluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// A model reads a pod that is in a queue as it was decided about, however the pod and its controllers were edited, and one
// without terms, as one that is made anew, as it is.
func TestModelKeepsTerms(t *testing.T) {
	p := ownedPod("train", 0, "queue", "q")
	p.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue,
		Message: convert.Record{Queue: "q", Keys: convert.Keys{v1alpha1.KeyQueue: "q"}}.Text()}}
	m := racked(node("n1", "r1", 8), limit("q", 0, nil), limit("r", 8, nil), job("train", 1), p)
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	edited := p.DeepCopy()
	edited.Annotations["berth.dev/queue"] = "r"
	m.Set(edited, job("train", 1, "queue", "r"))
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	anew := edited.DeepCopy()
	anew.Status.Conditions = nil
	m.Set(anew)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(p)
	expect(t, m, map[string]string{"train-0": "blocked exceeds-queue-maximum"})
	m.Delete(limit("q", 0, nil)) // what waits in a queue that is gone is in none
	expect(t, m, map[string]string{"train-0": "blocked queue-missing"})
	m.Set(edited)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
}

// Whether work is held is read at any time, unlike its terms: also of a pod that was decided about, from its controller.
func TestHoldIsReadAtAnyTime(t *testing.T) {
	decided := ownedPod("train", 0, "queue", "q")
	decided.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue,
		Message: convert.Record{Queue: "q", Keys: convert.Keys{v1alpha1.KeyQueue: "q"}}.Text()}}
	m := racked(node("n1", "r1", 8), limit("q", 8, nil), job("train", 1), decided)
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(job("train", 1, "hold", "true"))
	expect(t, m, map[string]string{"train-0": "blocked workload-held"})
	m.Set(job("train", 1, "hold", "false"))
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	itself := decided.DeepCopy()
	itself.Annotations[v1alpha1.KeyHold] = "true"
	m.Set(itself)
	expect(t, m, map[string]string{"train-0": "blocked workload-held"})
	released := decided.DeepCopy()
	released.Annotations[v1alpha1.KeyHold] = "false"
	m.Set(released, job("train", 1, "hold", "true")) // the nearest word counts
	expect(t, m, map[string]string{"train-0": "placed train-0@n1"})
	m.Set(decided, job("train", 1, "hold", "maybe"))
	expect(t, m, map[string]string{"train-0": "invalid invalid-object"})
}

func TestStoppedQueue(t *testing.T) {
	stopped := func(p v1alpha1.StopPolicy) *v1alpha1.BerthQueue {
		q := limit("q", 8, nil)
		q.Spec.StopPolicy = p
		return q
	}
	m := racked(node("n1", "r1", 8), stopped(v1alpha1.StopHold), pod("a", 1, "queue", "q"))
	expect(t, m, map[string]string{"a": "blocked queue-stopped"})
	m.Set(stopped("Sideways")) // the API server refuses it; rather nothing starts
	expect(t, m, map[string]string{"a": "blocked queue-stopped"})
	m.Set(stopped(v1alpha1.StopNone))
	expect(t, m, map[string]string{"a": "placed a@n1"})
}

// A cluster whose evictions are frozen evicts from no queue: not from one that is made later, and not where there is none.
func TestFrozenCluster(t *testing.T) {
	system := func(value string) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}
		if value != "" {
			n.Annotations = map[string]string{v1alpha1.KeyFreeze: value}
		}
		return n
	}
	queue := limit("default", 8, nil)
	for _, c := range []struct {
		name   string
		steps  []*corev1.Namespace
		then   func(*Model)
		evicts bool
	}{
		{"without queues", nil, nil, true},
		{"frozen, without queues", []*corev1.Namespace{system("true")}, nil, false},
		{"a queue is made later", []*corev1.Namespace{system("true")}, func(m *Model) { m.Set(queue) }, false},
		{"another queue is made later", []*corev1.Namespace{system("true")}, func(m *Model) { m.Set(limit("other", 8, nil)) }, false},
		{"thawed", []*corev1.Namespace{system("true"), system("false")}, nil, true},
		{"thawed, and a queue", []*corev1.Namespace{system("true"), system("")}, func(m *Model) { m.Set(queue) }, true},
		{"frozen by a word that nobody knows", []*corev1.Namespace{system("yes")}, nil, false},
		{"the queue is gone", []*corev1.Namespace{system("true")}, func(m *Model) { m.Set(queue); m.settle(); m.Delete(queue) }, false},
		{"the queue was there before", nil, func(m *Model) { m.Set(queue); m.settle(); m.Set(system("true")) }, false},
		{"the queue was there before, and is thawed", nil, func(m *Model) { m.Set(queue, system("true")); m.settle(); m.Set(system("")) }, true},
	} {
		m := racked(node("n1", "r1", 8), edited(pod("runs", 8), on("n1")), edited(pod("urgent", 8), func(p *corev1.Pod) { p.Spec.Priority = new(int32(100)) }))
		for _, n := range c.steps {
			m.Set(n)
			m.settle()
		}
		if c.then != nil {
			c.then(m)
		}
		if got := len(m.Plan(noon).Evictions) > 0; got != c.evicts {
			t.Errorf("%s: evicts %v, want %v", c.name, got, c.evicts)
		}
	}
}

// A hold counts from any height: of what makes what makes the pods. An operator's counts before what is nearer, and a
// ReplicaSet's copy of its Deployment's word counts for nothing.
func TestHoldFromAbove(t *testing.T) {
	above := func(kind, name, by, byKind string, annotations ...string) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{ObjectMeta: owner(name, annotations...)}
		m.Kind = kind
		if by != "" {
			m.OwnerReferences = []metav1.OwnerReference{{Kind: byKind, Name: by, UID: types.UID("uid-" + by), Controller: new(true)}}
		}
		return m
	}
	under := func(annotations ...string) *batchv1.Job {
		j := job("train", 1, annotations...)
		j.OwnerReferences = []metav1.OwnerReference{{Kind: "JobSet", Name: "set", UID: "uid-set", Controller: new(true)}}
		return j
	}
	held, free := map[string]string{"train-0": "blocked workload-held"}, map[string]string{"train-0": "placed train-0@n1"}
	m := racked(node("n1", "r1", 8), under(), ownedPod("train", 0))
	expect(t, m, free)
	m.Set(above("JobSet", "set", "llm", "TrainJob"), above("TrainJob", "llm", "", "", "hold", "true"))
	expect(t, m, held)
	m.Set(under("hold", "false")) // the nearest word counts
	expect(t, m, free)
	m.Set(above("TrainJob", "llm", "", "", "hold", v1alpha1.HoldByOperator))
	expect(t, m, held)
	m.Set(edited(ownedPod("train", 0, "hold", "false"), func(*corev1.Pod) {}))
	expect(t, m, held)
	m.Set(above("TrainJob", "llm", "", "", "queue", "nobody")) // nothing else is read of it
	expect(t, m, free)

	set := &appsv1.ReplicaSet{ObjectMeta: owner("train", "hold", "operator"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1))}}
	set.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true)}}
	web := func(annotations ...string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: owner("web", annotations...)}
	}
	m = racked(node("n1", "r1", 8), set, web("hold", "operator"), edited(ownedPod("train", 0), func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }))
	expect(t, m, held)
	m.Set(web())
	expect(t, m, free)
}
