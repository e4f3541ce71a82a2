package provision

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	corefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// asking is a cluster with an autoscaler whose answers the test gives, and a gang of pods that wait.
type asking struct {
	t    *testing.T
	a    *asker
	dyn  *dynamicfake.FakeDynamicClient
	snap engine.Snapshot
	now  time.Time
}

func (x *asking) Cycles() int64 { return 1 }
func (x *asking) Snapshot(context.Context) (engine.Snapshot, engine.Config, error) {
	return x.snap, engine.Config{}, nil
}

func newAsking(t *testing.T, class string, pods int, cause why.Cause, verdict why.Verdict) *asking {
	x := &asking{t: t, now: time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)}
	core := corefake.NewClientset()
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{requestResource: "ProvisioningRequestList"})
	x.dyn = dyn
	x.a = &asker{core: core, requests: dyn.Resource(requestResource), class: class, log: slog.New(slog.DiscardHandler)}
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("train-%d", i)}}
		gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		p.Spec = corev1.PodSpec{
			NodeSelector: map[string]string{"pool": "h200"}, Containers: []corev1.Container{{Name: "main", Image: "train", Resources: corev1.ResourceRequirements{Limits: gpus, Requests: gpus}}},
			Volumes: []corev1.Volume{{Name: fmt.Sprintf("kube-api-access-%d", i)}},
		}
		says := report.Pending{Cause: cause, Verdict: verdict}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: report.CauseReason(cause)}, says.Condition(metav1.Time{})}
		if _, err := core.CoreV1().Pods("team").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		x.snap.Pods = append(x.snap.Pods, engine.Pod{Key: "team/" + p.Name, Gang: "team/gang/train"})
	}
	return x
}

func (x *asking) look() {
	x.t.Helper()
	if err := x.a.look(x.t.Context(), x, x.now, time.Minute); err != nil {
		x.t.Fatal(err)
	}
}

// requests are the names of those that exist.
func (x *asking) requests() (out []string) {
	x.t.Helper()
	list, err := x.a.list(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	for _, r := range list {
		out = append(out, fmt.Sprintf("%d: %d pods", r.attempt, r.count()))
	}
	return out
}

// says has the autoscaler set a condition of the only request.
func (x *asking) says(condition string) {
	x.t.Helper()
	list, err := x.a.requests.Namespace("team").List(x.t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		x.t.Fatal(len(list.Items), err)
	}
	u := &list.Items[0]
	have, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	have = append(have, map[string]any{"type": condition, "status": "True", "reason": condition, "message": "", "lastTransitionTime": x.now.Format(time.RFC3339)})
	if err := unstructured.SetNestedSlice(u.Object, have, "status", "conditions"); err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.a.requests.Namespace("team").Update(x.t.Context(), u, metav1.UpdateOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *asking) want(what string, want ...string) {
	x.t.Helper()
	if got := x.requests(); fmt.Sprint(got) != fmt.Sprint(want) {
		x.t.Fatalf("%s: requests %v, want %v", what, got, want)
	}
}

// TestRequests follows one gang through all that an autoscaler can say.
func TestRequests(t *testing.T) {
	for _, class := range []string{CheckCapacity, BestEffortAtomic} {
		t.Run(class, func(t *testing.T) {
			x := newAsking(t, class, 3, why.ClusterFull, why.Impossible)
			x.look()
			x.look()
			x.want("asked once for the whole gang", "0: 3 pods")
			templates, err := x.a.core.CoreV1().PodTemplates("team").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(templates.Items) != 1 || len(templates.Items[0].Template.Spec.Volumes) != 0 || templates.Items[0].Template.Spec.NodeSelector["pool"] != "h200" {
				t.Fatalf("templates %+v, %v", templates.Items, err)
			}
			p, err := x.a.core.CoreV1().Pods("team").Get(t.Context(), "train-2", metav1.GetOptions{})
			if err != nil || p.Annotations[consumeKey] == "" || p.Annotations[classKey] != class {
				t.Fatalf("pod %v, %v", p.Annotations, err)
			}
			x.says("Accepted")
			x.look()
			x.want("accepted", "0: 3 pods")
			x.says("Failed")
			x.look()
			x.want("failed, and remembered", "0: 3 pods")
			x.now = x.now.Add(time.Minute)
			x.look()
			x.want("asked again later", "1: 3 pods")
			x.says("Provisioned")
			x.now = x.now.Add(time.Hour)
			x.look()
			x.want("provisioned", "1: 3 pods")
			x.says("BookingExpired")
			x.look()
			x.want("the booking expired while it waited", "2: 3 pods")
			x.says("Provisioned")
			x.says("CapacityRevoked")
			x.look()
			x.want("revoked", "3: 3 pods")
			x.says("Provisioned")
			for i := range x.snap.Pods {
				x.snap.Pods[i].Node = "n"
			}
			x.look()
			x.want("it runs")
		})
	}
}

// TestNoRequestFor work that nodes do not help, that is only in part marked, or that is gone.
func TestNoRequestFor(t *testing.T) {
	x := newAsking(t, CheckCapacity, 2, why.OverQuota, why.Blocked)
	x.look()
	x.want("a quota keeps it waiting")

	x = newAsking(t, CheckCapacity, 2, why.ClusterFull, why.Impossible)
	x.snap.Pods = append(x.snap.Pods, engine.Pod{Key: "team/train-2", Gang: "team/gang/train"})
	x.look()
	x.want("one of its pods is not marked")

	x = newAsking(t, CheckCapacity, 2, why.ClusterFull, why.Impossible)
	x.look()
	x.want("both are", "0: 2 pods")
	x.snap.Pods = nil
	x.look()
	x.want("it is gone")
}

// TestRequestsKilled stops the asker at each of its writes in turn. Whoever comes next has one request with all its templates in the
// end, and pods that carry it.
func TestRequestsKilled(t *testing.T) {
	for stop := 1; ; stop++ {
		x := newAsking(t, CheckCapacity, 3, why.ClusterFull, why.Impossible)
		p, err := x.a.core.CoreV1().Pods("team").Get(t.Context(), "train-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Spec.NodeSelector = map[string]string{"pool": "b200"} // a second template
		if _, err := x.a.core.CoreV1().Pods("team").Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, kill := context.WithCancel(t.Context())
		writes := 0
		count := func(action clienttesting.Action) (bool, runtime.Object, error) {
			if action.GetVerb() != "create" && action.GetVerb() != "patch" {
				return false, nil, nil
			}
			if writes++; writes == stop {
				kill()
			}
			return ctx.Err() != nil, nil, ctx.Err()
		}
		x.a.core.(*corefake.Clientset).PrependReactor("*", "*", count)
		x.dyn.PrependReactor("*", "*", count)
		err = x.a.look(ctx, x, x.now, time.Minute)
		x.a.core.(*corefake.Clientset).ReactionChain = x.a.core.(*corefake.Clientset).ReactionChain[1:]
		x.dyn.ReactionChain = x.dyn.ReactionChain[1:]
		kill()
		x.a = &asker{core: x.a.core, requests: x.a.requests, class: x.a.class, log: x.a.log}
		for range 3 {
			x.now = x.now.Add(tornAfter)
			x.look()
		}
		list, listErr := x.a.list(t.Context())
		if listErr != nil || len(list) != 1 {
			t.Fatalf("stopped at write %d: requests %v, %v", stop, list, listErr)
		}
		for i := range list[0].sets {
			if _, err := x.a.core.CoreV1().PodTemplates("team").Get(t.Context(), templateName(&list[0], i), metav1.GetOptions{}); err != nil {
				t.Errorf("stopped at write %d: %v", stop, err)
			}
		}
		for i := range 3 {
			p, err := x.a.core.CoreV1().Pods("team").Get(t.Context(), fmt.Sprintf("train-%d", i), metav1.GetOptions{})
			if err != nil || p.Annotations[consumeKey] != list[0].name {
				t.Errorf("stopped at write %d: pod %v, %v, want %s", stop, p.Annotations, err, list[0].name)
			}
		}
		if err == nil {
			if stop < 6 {
				t.Errorf("%d writes in all", stop-1)
			}
			return // it was not stopped any more
		}
	}
}

// FuzzReadRequest: whatever others write into a request, it is read as one or passed over.
func FuzzReadRequest(f *testing.F) {
	f.Add("team/gang", "0", `{"podSets":[{"count":3}]}`, `{"conditions":[{"type":"Failed","status":"True"}]}`)
	f.Fuzz(func(t *testing.T, gang, attempt, spec, status string) {
		u := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{"apiVersion":"autoscaling.x-k8s.io/v1","kind":"ProvisioningRequest","spec":%s,"status":%s}`, spec, status)
		if u.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		u.SetAnnotations(map[string]string{v1alpha1.KeyLaunchedFor: gang, attemptKey: attempt})
		if r, ok := readRequest(u); ok && r.count() < 0 {
			t.Errorf("%d pods", r.count())
		}
	})
}
