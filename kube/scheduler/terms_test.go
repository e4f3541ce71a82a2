package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/policy"
)

// says sets what the pod says under one of our keys.
func says(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["berth.dev/"+key] = value }
}

// restart ends the scheduler and starts the next one, which knows only what is in the API.
func (w *world) restart(stop func() error) func() error {
	w.t.Helper()
	if err := stop(); err != nil {
		w.t.Fatal(err)
	}
	return w.start()
}

// A tenant names a queue that is not there on what runs: its own queue's limit holds all the same.
func TestALimitHoldsThoughPodsNameAnotherQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), node("n2", "r1", 8), limit("q", 8, nil))
		stop := w.start()
		for round := range 4 {
			for i := range 8 {
				w.add(pod(fmt.Sprint("p", round, i), 1, "queue", "q"))
			}
			w.rest()
			for _, p := range w.all() {
				w.edit(p.Name, says("queue", "nowhere"))
			}
			w.rest()
			stop = w.restart(stop)
		}
		if n := len(w.done()); n != 8 {
			t.Errorf("%d GPUs under a limit of 8", n)
		}
	})
}

// A tenant names the queue of another team, which does not select its namespace, on what runs: that team is not charged.
func TestNobodyIsChargedForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs := limit("theirs", 4, map[string]string{"team": "b"})
		other := tenant("team", "b")
		other.Name = "team-b"
		w := newWorld(t, node("n1", "r1", 8), limit("q", 8, nil), theirs, tenant("team", "a"), other, pod("a", 4, "queue", "q"))
		stop := w.start()
		w.edit("a", says("queue", "theirs"))
		w.rest()
		stop = w.restart(stop)
		w.add(inTeamB(pod("b", 4, "queue", "theirs")))
		w.after(statusEvery + time.Second)
		if diff := cmp.Diff([]string{"a n1", "b n1"}, w.done()); diff != "" {
			t.Error(diff)
		}
		if used := w.queues.status("q").Resources[0].Used; used.Value() != 4 {
			t.Errorf("q uses %v", used)
		}
		_ = stop
	})
}

// What was borrowed is given back, whatever its pods say since.
func TestBorrowedWorkIsReclaimedThoughItSaysNo(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := teams(t)
			ends := w.ends(time.Second)
			stop := w.start()
			for i := range 4 {
				w.edit(fmt.Sprint("b", i), says("preemptible", "false"))
			}
			w.rest()
			if restarts {
				w.restart(stop)
			}
			w.add(pod("a0", 1, "queue", "a"))
			w.add(pod("a1", 1, "queue", "a"))
			w.after(time.Minute)
			if at := w.at("a0", "a1"); at[0] == "" || at[1] == "" || len(ends.ended()) != 2 {
				t.Errorf("a is at %q; ended %q", at, ends.ended())
			}
		})
	}
}

// Until it is in a queue a pod can be mended: what it says is read again.
func TestWhatIsNotAdmittedCanBeMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), tenant("team", "a"), limit("q", 8, nil), limit("closed", 8, map[string]string{"team": "b"}),
			pod("missing", 1, "queue", "nowhere"), pod("forbidden", 1, "queue", "closed"), pod("unreadable", 1, "queue", "q", "max-run", "x"))
		for _, o := range append(gang("g", 3, "queue", "nowhere")[:2], gang("h", 2, "queue", "q", "min", "x")...) {
			w.add(o)
		}
		w.start()
		names := []string{"missing", "forbidden", "unreadable", "g-0", "g-1", "h-0", "h-1"}
		w.after(time.Minute)
		for _, name := range names {
			if c := convert.AdmittedOf(w.pod(name)); c != nil {
				t.Errorf("%s, which waits as %q, is in a queue: %v", name, w.condition(name), c)
			}
		}
		for _, name := range names {
			w.edit(name, func(p *corev1.Pod) {
				says("queue", "q")(p)
				delete(p.Annotations, "berth.dev/max-run")
				if p.Annotations["berth.dev/min"] != "" {
					says("min", "2")(p)
				}
			})
		}
		w.rest()
		for i, at := range w.at(names...) {
			if at == "" {
				t.Errorf("%s waits: %q", names[i], w.said(names[i]))
			}
		}
	})
}

// What waits in a queue stays in it: it does not go to another, and it does not say other things.
func TestWhatWaitsStaysInItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gang("g", 2, "queue", "q"), node("n1", "r1", 8), limit("q", 1, nil), limit("r", 8, nil), pod("lone", 2, "queue", "q"))...)
		stop := w.start()
		for _, name := range []string{"g-0", "g-1", "lone"} {
			w.edit(name, says("queue", "r"))
		}
		w.rest()
		w.restart(stop)
		if diff := cmp.Diff([]string{"False ExceedsQueueMaximum", "False ExceedsQueueMaximum", "False ExceedsQueueMaximum"}, w.conditions("g-0", "g-1", "lone")); diff != "" {
			t.Error(diff)
		}
		w.queues.remove("q") // then it is in none, and what it says now counts
		w.rest()
		if diff := cmp.Diff([]string{"n1", "n1", "n1"}, w.at("g-0", "g-1", "lone")); diff != "" {
			t.Error(diff)
		}
	})
}

// A Job is replaced by one that asks for something else. Its pods come while those of the old one are still there, and take
// the old terms over; once those are gone, what they asked for themselves counts, whatever was edited in between.
func TestAReplacedJobGetsWhatItAsksFor(t *testing.T) {
	for _, runs := range []bool{false, true} {
		for _, restarts := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				limits := int64(1)
				if runs {
					limits = 2
				}
				w := newWorld(t, append(gang("g", 2, "queue", "q"), node("n1", "r1", 8), limit("q", limits, nil), limit("r", 8, nil), limit("s", 0, nil))...)
				stop := w.start()
				names := []string{"later-0", "later-1"}
				for _, name := range names {
					w.add(pod(name, 1, "gang", "g", "min", "2", "queue", "r"))
				}
				w.rest()
				if diff := cmp.Diff([]string{"", ""}, w.at(names...)); diff != "" {
					t.Fatal(diff)
				}
				for _, name := range names {
					w.edit(name, says("queue", "s"))
				}
				w.rest()
				if restarts {
					if err := stop(); err != nil {
						t.Fatal(err)
					}
				}
				w.remove("pods", "default", "g-0")
				w.remove("pods", "default", "g-1")
				if restarts {
					w.start()
				}
				w.rest()
				if diff := cmp.Diff([]string{"n1", "n1"}, w.at(names...)); diff != "" {
					t.Errorf("runs %v, restarts %v: %s, %s", runs, restarts, diff, w.conditions(names...))
				}
				if r, _, ok := w.recordOf(w.pod("later-0")); !ok || r.Queue != "r" || r.Own != nil {
					t.Errorf("decided %+v", r)
				}
			})
		}
	}
}

// A pod whose queue went while nobody scheduled is decided about anew.
func TestAQueueGoesWhileNobodySchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 1, nil), limit("r", 8, nil), pod("a", 2, "queue", "q"))
		stop := w.start()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		w.queues.remove("q")
		stop = w.start()
		if c := convert.AdmittedOf(w.pod("a")); w.condition("a") != "False QueueMissing" || c == nil || c.Status != corev1.ConditionFalse {
			t.Errorf("%s, %v", w.condition("a"), c)
		}
		w.restart(stop)
		w.edit("a", says("queue", "r"))
		w.rest()
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// Pods that a scheduler bound which wrote nothing down are decided about as they are, once.
func TestRunningWorkWithoutTermsGetsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 4, nil))
		old := append(gang("g", 2, "queue", "q"), pod("a", 1, "queue", "q", "max-run", "x"), pod("b", 1, "queue", "gone"))
		for _, o := range old {
			o.(*corev1.Pod).Spec.NodeName = "n1"
			w.add(o)
		}
		stop := w.start()
		for _, o := range old {
			name := o.(*corev1.Pod).Name
			if _, _, ok := w.recordOf(w.pod(name)); !ok {
				t.Fatalf("%s has no terms: %v", name, w.pod(name).Status.Conditions)
			}
			w.edit(name, says("queue", "nowhere"))
		}
		w.restart(stop)
		w.after(statusEvery + time.Second)
		if used := w.queues.status("q").Resources[0].Used; used.Value() != 3 {
			t.Errorf("q uses %v", used)
		}
	})
}

// A status that is not ours is not believed; and where somebody took the terms off a pod that runs they are put back.
func TestTermsThatWereTamperedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forged := pod("a", 2, "queue", "q")
		forged.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue, Message: `{"v":9,"queue":"r"}`}}
		w := newWorld(t, node("n1", "r1", 8), limit("q", 4, nil), limit("r", 4, nil), forged)
		w.start()
		r, text, ok := w.recordOf(w.pod("a"))
		if !ok || r.Queue != "q" {
			t.Fatalf("decided %+v", r)
		}
		w.edit("a", func(p *corev1.Pod) { p.Status.Conditions = nil })
		w.rest()
		if _, got, _ := w.recordOf(w.pod("a")); got != text {
			t.Errorf("terms %q", got)
		}
	})
}

// What starts at once has its terms with its Binding: nothing is written before it. What waits has them in its condition.
func TestTermsGoWithTheBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 4), limit("q", 4, nil), pod("a", 4, "queue", "q"))
		stop := w.start()
		if r, _, ok := w.recordOf(w.pod("a")); !ok || r.Queue != "q" || len(w.patched()) != 0 {
			t.Fatalf("decided %+v, %v; written before: %q", r, ok, w.patched())
		}
		w.add(pod("b", 4, "queue", "q"))
		w.after(time.Minute)
		w.remove("pods", "default", "a")
		w.rest()
		b := w.pod("b")
		if convert.AdmittedOf(b) == nil || b.Annotations[v1alpha1.KeyTerms] != "" || b.Spec.NodeName == "" {
			t.Errorf("%v, %v on %q", b.Status.Conditions, b.Annotations, b.Spec.NodeName)
		}
		_ = stop
	})
}

// Sealed terms count on the pod that they were sealed for, once it is bound, and nowhere else.
func TestSealedTermsOfAnotherPodCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 4, nil), limit("r", 4, nil), pod("a", 1, "queue", "q"))
		stop := w.start()
		of := w.pod("a").Annotations
		if of[v1alpha1.KeyTerms] == "" || of[v1alpha1.KeySeal] == "" {
			t.Fatalf("a has no sealed terms: %v", of)
		}
		forge := []string{"queue", "r", "terms", of[v1alpha1.KeyTerms], "terms-seal", of[v1alpha1.KeySeal]}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		waits, runs := pod("waits", 1, forge...), pod("runs", 1, forge...)
		runs.Spec.NodeName = "n1"
		w.add(waits)
		w.add(runs)
		w.start()
		for _, name := range []string{"waits", "runs"} {
			if r, _, ok := w.recordOf(w.pod(name)); !ok || r.Queue != "r" {
				t.Errorf("%s: decided %+v, %v", name, r, ok)
			}
		}
	})
}

// Where the policy that guards sealed terms is gone, or cannot be asked for, terms are in conditions: those of pods that
// run are written there, those of others before they are bound.
func TestTermsAreInConditionsWhereNothingGuardsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), limit("q", 4, nil), pod("a", 1, "queue", "q"))
		w.start()
		if convert.AdmittedOf(w.pod("a")) != nil {
			t.Fatal("a has its terms in a condition")
		}
		w.removePolicy()
		w.after(2 * guardEvery)
		w.add(pod("b", 1, "queue", "q"))
		w.rest()
		for _, name := range []string{"a", "b"} {
			if convert.AdmittedOf(w.pod(name)) == nil {
				t.Errorf("%s has no condition: %v", name, w.pod(name).Status.Conditions)
			}
		}
		if b := w.pod("b"); b.Annotations[v1alpha1.KeyTerms] != "" || b.Spec.NodeName == "" {
			t.Errorf("b is on %q with %v", b.Spec.NodeName, b.Annotations)
		}
	})
}

// What is said about whether terms are guarded is what the API server does: not without a policy or a binding that denies
// everywhere, and not with one that does not know of sealed terms.
func TestWhatGuardsTerms(t *testing.T) {
	for name, change := range map[string]func(*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding){
		"as installed": nil,
		"ignored when it fails": func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.FailurePolicy = ptr.To(admissionv1.Ignore)
		},
		"of an earlier version": func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			p.Spec.Variables[0].Expression = `["berth.dev/queue"]`
		},
		"warns only": func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		},
		"in some namespaces": func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		},
		"of another policy": func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.PolicyName = "other"
		},
	} {
		w := newWorld(t)
		api := w.client.AdmissionregistrationV1()
		p, err := api.ValidatingAdmissionPolicies().Get(t.Context(), policy.Terms, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := api.ValidatingAdmissionPolicyBindings().Get(t.Context(), policy.Terms, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(p, b)
			if _, err := api.ValidatingAdmissionPolicies().Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := api.ValidatingAdmissionPolicyBindings().Update(t.Context(), b, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := policy.GuardsTerms(t.Context(), w.client); got != (change == nil) || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A pod is not bound while its terms cannot be written, and is once they can.
func TestAPodIsNotBoundWithoutItsTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 8), pod("a", 1), pod("b", 1))
		w.removePolicy()
		var taken atomic.Bool
		w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if !taken.Load() && a.(clienttesting.PatchAction).GetName() == "a" {
				return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods/status"}, "a", nil)
			}
			return false, nil, nil
		})
		w.start()
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"b n1"}, w.tried()); diff != "" {
			t.Error(diff)
		}
		taken.Store(true)
		w.after(2 * time.Minute)
		if diff := cmp.Diff([]string{"n1"}, w.at("a")); diff != "" {
			t.Error(diff)
		}
	})
}

// Which queues a namespace may use is written on it, when it changes; one that may use all there are need not say so.
func TestNamespacesSayWhichQueuesTheyMayUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, tenant("team", "a"), limit("open", 1, nil))
		w.start()
		says := func(want string, has bool) {
			t.Helper()
			w.after(time.Second)
			n, err := w.client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := n.Annotations[v1alpha1.KeyQueues]; got != want || ok != has {
				t.Errorf("says %q, %v; want %q", got, ok, want)
			}
		}
		says("", false)
		w.add(limit("theirs", 1, map[string]string{"team": "b"}))
		says("open", true)
		w.queues.remove("open")
		says("", true) // it may use none
		w.add(limit("open", 1, nil))
		says("open", true)
		w.add(limit("another", 1, map[string]string{"team": "a"}))
		says("another,open", true)
		w.queues.remove("theirs")
		says("*", true)
		for i := range 101 {
			w.add(limit(fmt.Sprint("q", i), 1, map[string]string{"team": "a"}))
			w.after(time.Millisecond) // so that the watch takes it
		}
		w.add(limit("theirs", 1, map[string]string{"team": "b"}))
		says("*", true)
		n := 0
		for _, p := range w.patched() {
			if strings.HasPrefix(p, "namespaces/") {
				n++
			}
		}
		if n > 7 {
			t.Errorf("%d writes", n)
		}
	})
}

// A scheduler that waits for the lead goes by what the one that leads has decided last.
func TestAStandbyGoesByTheLeadersTerms(t *testing.T) {
	w := newWorld(t, node("n1", "r1", 8), limit("q", 8, nil), limit("r", 8, nil))
	s := w.still(t)
	s.feed.Follow(true)
	p := pod("a", 1, "queue", "q")
	for i, queue := range []string{"q", "r"} {
		p = p.DeepCopy()
		p.UID, p.ResourceVersion, p.Spec.NodeName = "a", fmt.Sprint(1000+i), "n1"
		p.Status.Conditions = []corev1.PodCondition{{Type: convert.Admitted, Status: corev1.ConditionTrue, Message: convert.Record{Queue: queue}.Text()}}
		s.feed.Set(p)
	}
	s.feed.Follow(false)
	p = p.DeepCopy()
	p.ResourceVersion, p.Status.Conditions = "1002", nil
	s.feed.Set(p)
	s.cycle(time.Now())
	if got := s.state.Dump().Pods[0].Queue; got != "r" {
		t.Errorf("charged to %q", got)
	}
}
