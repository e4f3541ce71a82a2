package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func owner(name string, annotations ...string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}}
	for i := 0; i+1 < len(annotations); i += 2 {
		o.Annotations["berth.dev/"+annotations[i]] = annotations[i+1]
	}
	return o
}

// ownedPod is one that the controller of the name made.
func ownedPod(by string, index int, annotations ...string) *corev1.Pod {
	p := pod(fmt.Sprintf("%s-%d", by, index), 1, annotations...)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: by, UID: types.UID("uid-" + by), Controller: &yes}}
	return p
}

func job(name string, pods int32, annotations ...string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: owner(name, annotations...), Spec: batchv1.JobSpec{Parallelism: &pods, Completions: &pods}}
}

// update writes a controller's new version.
func (w *world) updateJob(j *batchv1.Job) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	j.ResourceVersion = w.next()
	if err := w.client.Tracker().Update(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, j, "default"); err != nil {
		w.t.Fatal(err)
	}
}

// What the Job says holds for its pods: they are a gang, and as many as the Job makes start together, however late
// the last of them comes.
func TestAGangThatItsJobDescribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), job("train", 3, "gang", "train"), ownedPod("train", 0), ownedPod("train", 1))
		w.start()
		if got := w.tried(); len(got) > 0 {
			t.Fatalf("two of three were started: %v", got)
		}
		w.add(ownedPod("train", 2))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1", "n1"}, w.at("train-0", "train-1", "train-2")); diff != "" {
			t.Error(diff)
		}
	})
}

// The Job may be seen after its pods, and may change its mind.
func TestAJobThatIsSeenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), job("a", 2), ownedPod("a", 0), ownedPod("a", 1))
		w.start()
		if len(w.done()) != 1 {
			t.Fatalf("pods of nobody's gang start one by one: %v", w.done())
		}
		w.add(job("b", 2, "gang", "b", "topology-required", "rack"))
		w.add(ownedPod("b", 0))
		w.add(ownedPod("b", 1))
		w.add(node("n2", "r2", 1))
		w.add(node("n3", "r3", 2))
		w.rest()
		if diff := cmp.Diff([]string{"n3", "n3"}, w.at("b-0", "b-1")); diff != "" {
			t.Errorf("the job asked for one rack: %s", diff)
		}
	})
}

// A member that succeeded has done its part: the replacement of one that failed starts without it.
func TestAReplacementJoinsWhatIsLeftOfItsGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := job("train", 3, "gang", "train", "min", "3")
		w := newWorld(t, node("n1", "r1", 8), j, ownedPod("train", 0), ownedPod("train", 1), ownedPod("train", 2))
		w.start()
		w.edit("train-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.edit("train-1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		w.remove("pods", "default", "train-0")
		j = j.DeepCopy()
		j.Status.Succeeded = 1
		w.updateJob(j)
		w.add(ownedPod("train", 3))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("train-2", "train-3")); diff != "" {
			t.Errorf("%s; %v", diff, w.said("train-3"))
		}
	})
}

// A StatefulSet that makes its pods one after the other can never have them all waiting.
func TestAGangThatCannotGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := int32(3)
		w := newWorld(t, node("n1", "r1", 8), &appsv1.StatefulSet{ObjectMeta: owner("s", "gang", "s"), Spec: appsv1.StatefulSetSpec{Replicas: &n}}, ownedPod("s", 0))
		w.start()
		w.rest()
		if got := w.said("s-0"); len(got) != 1 || !strings.Contains(got[0], "set podManagementPolicy to Parallel") {
			t.Errorf("said: %q", got)
		}
	})
}

// What a Deployment says reaches the pods of its ReplicaSets.
func TestAGangThatItsDeploymentDescribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, yes := int32(2), true
		rs := &appsv1.ReplicaSet{ObjectMeta: owner("serve-1"), Spec: appsv1.ReplicaSetSpec{Replicas: &n}}
		rs.OwnerReferences = []metav1.OwnerReference{{Name: "serve", UID: "uid-serve", Controller: &yes}}
		w := newWorld(t, node("n1", "r1", 8), ownedPod("serve-1", 0), rs)
		w.start()
		w.add(&appsv1.Deployment{ObjectMeta: owner("serve", "gang", "serve")})
		w.rest()
		if len(w.done()) > 0 {
			t.Fatalf("the first started alone: %v", w.done())
		}
		w.add(ownedPod("serve-1", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("serve-1-0", "serve-1-1")); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod that comes before the Job that made it does not start by itself: the Job may say that it is one of a gang. One
// whose Job is gone does.
func TestAPodThatComesBeforeItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8))
		w.start()
		w.add(ownedPod("train", 0))
		w.add(ownedPod("lost", 0))
		w.rest()
		if got := w.tried(); len(got) > 0 {
			t.Fatalf("started alone: %v", got)
		}
		w.add(job("train", 2, "gang", "train"))
		w.rest()
		if got := w.tried(); len(got) > 0 {
			t.Fatalf("one of two was started: %v", got)
		}
		w.add(ownedPod("train", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1"}, w.at("train-0", "train-1")); diff != "" {
			t.Error(diff)
		}
		w.after(10 * time.Second)
		if diff := cmp.Diff([]string{"n1"}, w.at("lost-0")); diff != "" {
			t.Errorf("the pod whose job is gone: %s", diff)
		}
	})
}
