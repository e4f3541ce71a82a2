package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// in puts a pod into a namespace.
func in(namespace string, p *corev1.Pod) *corev1.Pod {
	p.Namespace = namespace
	return p
}

func (w *world) podIn(namespace, name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.Tracker().Get(podsResource, namespace, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.(*corev1.Pod)
}

func scheduledCondition(p *corev1.Pod) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	return corev1.PodCondition{}
}

// A webhook on pods/binding that fails in some namespaces delays no pod of another, and is named on the pods that it
// blocks. When it is well again they are bound.
func TestAFailingWebhookBlocksItsOwnNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 100), node("n2", "r1", 100), node("n3", "r1", 100), node("n4", "r1", 110))
		down := apierrors.NewInternalError(errors.New(`failed calling webhook "bind.tenant.example": failed to call webhook: Post "https://x/bind": connect: connection refused`))
		broken := true
		w.answer(func(b *corev1.Binding) error {
			if broken && strings.HasPrefix(b.Namespace, "hostile") {
				return down
			}
			return nil
		})
		for n := range 20 {
			for i := range 15 {
				w.add(in(fmt.Sprint("hostile-", n), pod(fmt.Sprint("p", i), 1)))
			}
		}
		w.start()
		w.after(3 * time.Second)
		for i := range 10 {
			name := fmt.Sprint("clean-", i)
			w.add(pod(name, 1))
			w.after(time.Second)
			if got := w.at(name); got[0] == "" {
				t.Fatalf("%s is not bound after a second", name)
			}
		}
		for n := range 20 {
			c := scheduledCondition(w.podIn(fmt.Sprint("hostile-", n), fmt.Sprint("p", n%15)))
			if c.Reason != corev1.PodReasonSchedulerError || !strings.Contains(c.Message, `webhook "bind.tenant.example"`) {
				t.Errorf("hostile-%d: %s: %s", n, c.Reason, c.Message)
			}
		}
		tries := len(w.tried())
		w.after(time.Minute)
		if rate := (len(w.tried()) - tries) / 60; rate > 100 {
			t.Errorf("%d requests a second that fail", rate)
		}
		locked(w, func() bool { broken = false; return true })
		w.after(assumeFor)
		for n := range 20 {
			for i := range 15 {
				if p := w.podIn(fmt.Sprint("hostile-", n), fmt.Sprint("p", i)); p.Spec.NodeName == "" {
					t.Errorf("%s/%s is not bound", p.Namespace, p.Name)
				}
			}
		}
	})
}

// A webhook that denies is named too.
func TestADenyingWebhookIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		w.answer(func(*corev1.Binding) error {
			return apierrors.NewForbidden(podKind, "a", errors.New(`admission webhook "bind.tenant.example" denied the request: not today`))
		})
		w.start()
		if c := scheduledCondition(w.pod("a")); !strings.Contains(c.Message, `admission webhook "bind.tenant.example" denied the request`) {
			t.Errorf("%s: %s", c.Reason, c.Message)
		}
	})
}

// A condition is as long as the API server takes, and one that it will never take is sent once.
func TestConditionsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1), pod("b", 9))
		w.answer(func(b *corev1.Binding) error {
			return apierrors.NewForbidden(podKind, b.Name, errors.New(strings.Repeat("é", 3<<20)))
		})
		w.start()
		c := scheduledCondition(w.pod("a"))
		if c.Message == "" || len(c.Message) > maxMessage {
			t.Errorf("a message of %d bytes", len(c.Message))
		}
		if c := scheduledCondition(w.pod("b")); c.Reason != corev1.PodReasonUnschedulable {
			t.Errorf("the other pod is told %q", c.Reason)
		}
	})
}

func TestWhatTheServerWillNeverTakeIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("b", 9))
		sent := 0
		w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			sent++
			return true, nil, apierrors.NewRequestEntityTooLargeError("limit is 3145728")
		})
		w.start()
		w.after(10 * time.Minute)
		if sent != 1 {
			t.Errorf("sent %d times", sent)
		}
	})
}

// A write that fails is not tried for ever.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		began, last := time.Now(), time.Now()
		err := newGate(1).again(t.Context(), "a", func(context.Context) error {
			waits = append(waits, time.Since(last))
			last = time.Now()
			return apierrors.NewInternalError(errors.New("no"))
		})
		if took := time.Since(began); took > writeFor || !apierrors.IsInternalError(err) {
			t.Errorf("ended after %s with %v", took, err)
		}
		if !slices.IsSorted(waits) || waits[len(waits)-1] < lastWait || waits[len(waits)-1] > 2*lastWait {
			t.Errorf("waits of %v", waits)
		}
	})
}

// The answer to a question about a pod may be older than the news of its deletion.
func TestAnAnswerDoesNotBringAPodBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		s := w.still(t)
		old := w.pod("a").DeepCopy()
		s.feed.Remove(w.pod("a"))
		s.feed.RenewPod(old)
		if s.feed.Pod("default/a") != nil {
			t.Error("it is back")
		}
		next := pod("a", 1)
		next.UID, next.ResourceVersion = "next", "900"
		s.feed.Set(next)
		s.feed.RenewPod(old)
		if p := s.feed.Pod("default/a"); p == nil || p.UID != "next" {
			t.Errorf("got %v", p)
		}
	})
}

// A webhook that hangs longer than a binding may take is found by a dry run, which is asked for rarely.
func TestAHangingWebhookIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dry, bindings atomic.Int64
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("dryRun") == "" {
				bindings.Add(1)
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			dry.Add(1)
			sleep(r.Context(), 10*time.Second)
			why := status(http.StatusInternalServerError, metav1.StatusReasonInternalError)
			why.Message = `Internal error occurred: failed calling webhook "hangs.tenant.example": failed to call webhook: context deadline exceeded`
			return answerOf(http.StatusInternalServerError, why), r.Context().Err()
		})
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: transport, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1), pod("b", 1), pod("c", 1), pod("d", 1))
		w.start(func(o *Options) { o.binding = client })
		w.after(4500 * time.Millisecond)
		if c := scheduledCondition(w.pod("a")); c.Reason != "" {
			t.Errorf("before its time is up: %s", c.Message)
		}
		w.after(time.Second)
		told := 0
		for _, name := range []string{"a", "b", "c", "d"} {
			if c := scheduledCondition(w.pod(name)); strings.Contains(c.Message, "an admission webhook that it asks about pods/binding, hangs") {
				told++
			}
		}
		if told == 0 {
			t.Error("nobody is told that the binding hangs")
		}
		w.after(10 * time.Second)
		for _, name := range []string{"a", "b", "c", "d"} {
			if c := scheduledCondition(w.pod(name)); !strings.Contains(c.Message, `webhook "hangs.tenant.example"`) {
				t.Errorf("%s: %s", name, c.Message)
			}
		}
		if dry.Load() != 1 || bindings.Load() > 12 {
			t.Errorf("%d dry runs, %d bindings", dry.Load(), bindings.Load())
		}
	})
}

// A scheduler whose bindings the server's policy goes on rejecting says so on the pods.
func TestWhoIsFencedOffForGoodSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1))
		w.answer(func(*corev1.Binding) error {
			return apierrors.NewForbidden(podsResource.GroupResource(), "a", errors.New("ValidatingAdmissionPolicy '"+fencePolicy+"' with binding 'x' denied request: the sender does not lead"))
		})
		w.start()
		if c := scheduledCondition(w.pod("a")); c.Message != "" {
			t.Errorf("says at once %q", c.Message)
		}
		w.after(20 * time.Second)
		if c := scheduledCondition(w.pod("a")); c.Reason != corev1.PodReasonSchedulerError || !strings.Contains(c.Message, "the sender does not lead") {
			t.Errorf("says %q: %q", c.Reason, c.Message)
		}
	})
}

// Writes of a process that does not lead are not sent, and those of one that does carry their deadline.
func TestTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timeouts []string
		f := fence{roundTrip(func(r *http.Request) (*http.Response, error) {
			timeouts = append(timeouts, r.Method+" "+r.URL.Query().Get("timeout"))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}
		send := func(ctx context.Context, method string) error {
			r, err := http.NewRequestWithContext(ctx, method, "http://api/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.RoundTrip(r)
			return err
		}
		l := newLeadership("one")
		ctx := l.under(context.Background())
		if err := send(context.Background(), http.MethodPost); !errors.Is(err, errNotLeading) {
			t.Errorf("outside a leadership: %v", err)
		}
		if err := send(ctx, http.MethodPatch); !errors.Is(err, errNotLeading) {
			t.Errorf("before it begins: %v", err)
		}
		l.renewed(time.Now(), &coordinationv1.Lease{})
		time.Sleep(2 * time.Second)
		for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete, http.MethodGet} {
			if err := send(ctx, method); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
		time.Sleep(leaseFor - leaseMargin - 2*time.Second)
		l.renewed(time.Now(), &coordinationv1.Lease{}) // too late
		if err := send(ctx, http.MethodDelete); !errors.Is(err, errNotLeading) {
			t.Errorf("after its end: %v", err)
		}
		if diff := cmp.Diff([]string{"POST 2500ms", "PATCH 2500ms", "PUT 2500ms", "DELETE 2500ms", "GET "}, timeouts); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod whose place is taken while a webhook keeps it from being bound says again that there is no room, though that is what it said before.
func TestABlockedPodWhosePlaceIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ranked := func(p *corev1.Pod, priority int32) *corev1.Pod {
			p.Spec.Priority = &priority
			return p
		}
		first := pod("first", 1)
		first.Spec.NodeName = "n1"
		w := newWorld(t, node("n1", "r1", 1), first, ranked(pod("a", 1), 0))
		down := apierrors.NewInternalError(errors.New(`failed calling webhook "bind.tenant.example": connection refused`))
		w.answer(func(b *corev1.Binding) error {
			if b.Name == "a" {
				return down
			}
			return nil
		})
		w.start()
		if got := w.condition("a"); got != "False Unschedulable" {
			t.Fatal(got)
		}
		w.remove("pods", "default", "first")
		w.rest()
		if got := w.condition("a"); got != "False SchedulerError" {
			t.Fatal(got)
		}
		w.add(ranked(pod("second", 1), 10))
		w.after(2 * assumeFor)
		if got := w.condition("a"); got != "False Unschedulable" || w.at("second")[0] != "n1" {
			t.Errorf("a says %s, second is on %q", got, w.at("second"))
		}
	})
}
