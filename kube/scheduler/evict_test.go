package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// orders are evictions that a test decides instead of the engine, each once, when its beneficiary waits.
type orders struct {
	w     *world
	mu    sync.Mutex
	todo  []engine.Eviction // For and Pod are names in the default namespace
	last  engine.Snapshot   // as of the last plan
	first engine.Snapshot   // as of the first
}

func (o *orders) give(e engine.Eviction) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.todo = append(o.todo, e)
}

func (o *orders) options(opts *Options) {
	opts.plan = o.plan
	opts.Decisions.Dir = "" // the engine would not decide so
}

// plan is the engine's, and what was ordered.
func (o *orders) plan(s *engine.State, now time.Time) engine.Plan {
	plan := s.Plan(now)
	o.amend(s, &plan)
	return plan
}

func (o *orders) amend(s *engine.State, plan *engine.Plan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = s.Dump()
	if o.first.Version == 0 {
		o.first = o.last
	}
	o.todo = slices.DeleteFunc(o.todo, func(e engine.Eviction) bool {
		if e.For != "" {
			e.For = "default/" + e.For
			if !slices.ContainsFunc(plan.Waiting, func(w engine.Waiting) bool { return w.Gang == e.For }) {
				return false
			}
		}
		p := o.w.pod(e.Pod)
		e.Pod, e.UID, e.Until = keyOf(p), string(p.UID), plan.Now.Add(10*time.Minute)
		if e.At.IsZero() {
			e.At = plan.Now
		}
		*plan = withEviction(*plan, e)
		if e.For != "" {
			h := &engine.Hold{Gang: e.For, Node: p.Spec.NodeName, Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}, Until: e.Until}
			plan.Changes = append(plan.Changes, engine.Change{Hold: h})
		}
		return true
	})
}

func withEviction(plan engine.Plan, e engine.Eviction) engine.Plan {
	plan.Evictions = append(slices.Clone(plan.Evictions), e)
	plan.Changes = append(slices.Clone(plan.Changes), engine.Change{Eviction: &e})
	return plan
}

// known is what the engine remembers, as of its last plan: "refused x", "evicts x", "holds n for x".
func (o *orders) known() (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.last.Evictions {
		out = append(out, map[bool]string{true: "refused ", false: "evicts "}[e.Refused]+e.Pod)
	}
	for _, h := range o.last.Holds {
		out = append(out, "holds "+h.Node+" for "+h.Gang)
	}
	return out
}

// ends is the part of the world that ends pods: as a kubelet does, a while after they are deleted.
type ends struct {
	w     *world
	grace time.Duration
	mu    sync.Mutex
	seen  []string // "pod reason", what the pod's DisruptionTarget said when it was deleted; evictions end in " via API"
	deny  func(name string, eviction bool) error
}

func (w *world) ends(grace time.Duration) *ends {
	e := &ends{w: w, grace: grace}
	w.client.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d := a.(clienttesting.DeleteActionImpl)
		return true, nil, e.end(d.Name, d.DeleteOptions, false)
	})
	w.client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		o := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		return true, nil, e.end(o.Name, *o.DeleteOptions, true)
	})
	return e
}

func (e *ends) end(name string, how metav1.DeleteOptions, eviction bool) error {
	if deny := locked(e.w, func() func(string, bool) error { return e.deny }); deny != nil {
		if err := deny(name, eviction); err != nil {
			return err
		}
	}
	have, err := e.w.client.Tracker().Get(podsResource, "default", name)
	if err != nil {
		return err
	}
	p := have.(*corev1.Pod)
	if how.Preconditions != nil && *how.Preconditions.UID != p.UID {
		return conflict("precondition failed: UID")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	said := name
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			said += " " + c.Reason + ", " + c.Message
		}
	}
	if eviction {
		said += " via API"
	}
	e.seen = append(e.seen, said)
	if e.grace == 0 {
		return e.w.client.Tracker().Delete(podsResource, "default", name)
	}
	e.w.edit(name, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(e.grace)} })
	time.AfterFunc(e.grace, func() { _ = e.w.client.Tracker().Delete(podsResource, "default", name) })
	return nil
}

func (e *ends) answer(deny func(name string, eviction bool) error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.deny = deny
}

func (e *ends) ended() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// holds are the conditions of the pod that are true, without its terms and why it waits: "type reason".
func (w *world) holds(name string) (out []string) {
	for _, c := range w.pod(name).Status.Conditions {
		if c.Status == corev1.ConditionTrue && c.Type != convert.Admitted && c.Type != v1alpha1.PodPendingCause {
			out = append(out, fmt.Sprintf("%s %s", c.Type, c.Reason))
		}
	}
	return out
}

// full is a world with one GPU, which old has, and new waits for it; younger waits behind new.
func full(t *testing.T) (*world, *orders) {
	old := pod("old", 1)
	old.Spec.NodeName = "n1"
	w := newWorld(t, node("n1", "r1", 1), old, pod("new", 1))
	return w, &orders{w: w}
}

func TestAPodIsEvictedForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(10 * time.Second)
		var nominated []string // when the victim was deleted
		ends.answer(func(string, bool) error {
			nominated = append(nominated, w.pod("new").Status.NominatedNodeName)
			return nil
		})
		w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Preempted})
		w.add(pod("younger", 1)) // stirs the loop
		w.rest()
		if diff := cmp.Diff([]string{"old Preempted, preempted for pod default/new: it has a higher priority"}, ends.ended()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff([]string{"n1"}, nominated); diff != "" {
			t.Errorf("nominated before anybody is ended: %s", diff)
		}
		if diff := cmp.Diff([]string{"berth.dev/PlaceHeld MakingRoom"}, w.holds("new")); diff != "" {
			t.Error(diff)
		}
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"n1", ""}, w.at("new", "younger")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Preempted: preempted for pod default/new: it has a higher priority"}, w.said("old")); diff != "" {
			t.Error(diff)
		}
		room := "MakingRoom: evicts 1 pod for it: default/old (preempted: it has a higher priority)"
		if !slices.Contains(w.said("new"), room) {
			t.Errorf("%q does not say %q", w.said("new"), room)
		}
		if len(ends.ended()) != 1 {
			t.Errorf("ended %q", ends.ended())
		}
	})
}

// What the API server does not allow is told to the engine; the victim says nothing more of it, and nothing is kept.
func TestEvictionsThatAreRefused(t *testing.T) {
	no := errors.New("no")
	for name, c := range map[string]struct {
		cause engine.EvictionCause
		err   error
	}{
		"forbidden":                 {engine.Preempted, apierrors.NewForbidden(podKind, "old", no)},
		"conflict":                  {engine.Reclaimed, apierrors.NewConflict(podKind, "old", no)},
		"invalid":                   {engine.Overran, apierrors.NewBadRequest("no")},
		"disruption budget":         {engine.Moved, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)},
		"forbidden by eviction API": {engine.Moved, apierrors.NewForbidden(podKind, "old", no)},
		"silence until it is late":  {engine.Preempted, errors.New("connection refused")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := full(t)
				ends := w.ends(0)
				ends.answer(func(string, bool) error { return c.err })
				w.start(o.options)
				o.give(engine.Eviction{Pod: "old", For: "new", Cause: c.cause})
				w.add(pod("younger", 1))
				w.rest()
				if name == "silence until it is late" {
					if diff := cmp.Diff([]string{"evicts default/old", "holds n1 for default/new"}, o.known()); diff != "" {
						t.Errorf("while it is tried: %s", diff)
					}
					w.after(10 * time.Minute)
				}
				if diff := cmp.Diff([]string{"refused default/old"}, o.known()); diff != "" {
					t.Error(diff)
				}
				w.after(5 * time.Second)
				if got := append(w.holds("old"), w.holds("new")...); len(got) > 0 || w.pod("new").Status.NominatedNodeName != "" {
					t.Errorf("conditions %q, nominated for %q", got, w.pod("new").Status.NominatedNodeName)
				}
				if diff := cmp.Diff([]string{"n1", ""}, w.at("old", "new")); diff != "" {
					t.Error(diff)
				}
				if said := w.said("old"); len(said) > 0 {
					t.Errorf("said %q of what did not happen", said)
				}
			})
		})
	}
}

// A condition that cannot be written is a refusal too: nobody is ended without a word.
func TestAnEvictionWhoseConditionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.(clienttesting.PatchAction).GetName() == "old" {
				return true, nil, apierrors.NewForbidden(podKind, "old", errors.New("no"))
			}
			return false, nil, nil
		})
		w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
		w.add(pod("younger", 1))
		w.rest()
		if diff := cmp.Diff([]string{"refused default/old"}, o.known()); diff != "" || len(ends.ended()) > 0 {
			t.Error(diff, ends.ended())
		}
	})
}

// A victim that ends, or is replaced, by itself is no refusal.
func TestAVictimThatIsGoneAlready(t *testing.T) {
	for name, err := range map[string]error{
		"gone":     apierrors.NewNotFound(podKind, "old"),
		"replaced": apierrors.NewConflict(podKind, "old", errors.New("precondition failed: UID")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := full(t)
				ends := w.ends(0)
				ends.answer(func(string, bool) error {
					_ = w.client.Tracker().Delete(podsResource, "default", "old")
					if name == "replaced" {
						w.add(pod("old", 1, "gang", "no", "min", "2"))
					}
					return err
				})
				w.start(o.options)
				o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
				w.add(pod("younger", 1))
				w.rest()
				if diff := cmp.Diff([]string{"n1"}, w.at("new")); diff != "" {
					t.Error(diff)
				}
				if slices.Contains(o.known(), "refused default/old") {
					t.Errorf("known %q", o.known())
				}
			})
		})
	}
}

// While the API server is away nothing is decided anew; when it is back the one victim ends.
func TestTheServerIsAwayInTheMiddleOfAnEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		back := time.Now().Add(3 * time.Minute)
		ends.answer(func(string, bool) error {
			if time.Now().Before(back) {
				return errors.New("connection refused")
			}
			return nil
		})
		w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
		w.add(pod("younger", 1))
		w.after(2 * time.Minute)
		if diff := cmp.Diff([]string{"n1", ""}, w.at("old", "new")); diff != "" {
			t.Error(diff)
		}
		w.after(2 * time.Minute)
		if diff := cmp.Diff([]string{"n1"}, w.at("new")); diff != "" {
			t.Error(diff)
		}
		if len(ends.ended()) != 1 {
			t.Errorf("ended %q", ends.ended())
		}
	})
}

// Who is not needed as a victim any more, because the beneficiary is gone, stays: while its condition is being written,
// and while it is warned.
func TestTheBeneficiaryGoesAway(t *testing.T) {
	for name, warning := range map[string]time.Duration{"between the condition and the deletion": 0, "while the victim is warned": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := full(t)
				ends := w.ends(0)
				tries := 0
				w.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.(clienttesting.PatchAction).GetName() != "old" {
						return false, nil, nil
					}
					if tries++; tries == 1 && warning == 0 {
						w.remove("pods", "default", "new")
						return true, nil, errors.New("connection refused")
					}
					return false, nil, nil
				})
				w.start(o.options)
				o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed, At: time.Now().Add(warning)})
				w.add(pod("younger", 1))
				w.rest()
				if warning > 0 {
					w.remove("pods", "default", "new")
				}
				w.after(5 * time.Minute)
				if len(ends.ended()) > 0 {
					t.Fatalf("ended %q", ends.ended())
				}
				if tries < 2 {
					t.Fatal("nothing was said of the eviction")
				}
				if got := w.holds("old"); len(got) > 0 {
					t.Errorf("old still says %q", got)
				}
				if got := w.pod("old").Annotations[v1alpha1.KeyEvictAt]; got != "" {
					t.Errorf("old still reads the deadline %s", got)
				}
				if got := o.known(); len(got) > 0 {
					t.Errorf("the engine still knows %q", got)
				}
			})
		})
	}
}

// A victim that is to be warned says when, and is ended then and not before.
func TestAVictimIsWarned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		w.start(o.options)
		at := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Preempted, At: at})
		w.add(pod("younger", 1))
		w.rest()
		if diff := cmp.Diff([]string{"berth.dev/EvictionPlanned Preempted", "berth.dev/Eviction Preempted"}, w.holds("old")); diff != "" {
			t.Error(diff)
		}
		text := "at " + at.Format(time.RFC3339) + ", preempted for pod default/new: it has a higher priority"
		if diff := cmp.Diff([]string{"EvictionPlanned: to be evicted " + text}, w.said("old")); diff != "" {
			t.Error(diff)
		}
		w.after(58 * time.Second)
		if diff := cmp.Diff([]string{"n1", ""}, w.at("old", "new")); diff != "" {
			t.Errorf("before it is time: %s", diff)
		}
		w.after(3 * time.Second)
		if diff := cmp.Diff([]string{"n1"}, w.at("new")); diff != "" {
			t.Error(diff)
		}
		if len(ends.ended()) != 1 {
			t.Errorf("ended %q", ends.ended())
		}
	})
}

// A victim reads its deadline, and goes as soon as it says that its work is saved: of this warning, and of a gang all of it.
func TestAVictimThatHasSavedItsWorkGoesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := gang("g", 2)
		for _, o := range members {
			o.(*corev1.Pod).Spec.NodeName = "n1"
		}
		w := newWorld(t, append(members, node("n1", "r1", 2), pod("new", 2))...)
		o := &orders{w: w}
		ends := w.ends(0)
		w.start(o.options)
		at := time.Now().Add(time.Minute).UTC().Truncate(time.Second)
		for _, name := range []string{"g-0", "g-1"} {
			o.give(engine.Eviction{Pod: name, For: "new", Cause: engine.Preempted, At: at})
		}
		w.add(pod("younger", 1))
		w.rest()
		deadline := at.Format(time.RFC3339)
		acknowledge := func(name, value string) {
			w.edit(name, func(p *corev1.Pod) { p.Annotations[v1alpha1.KeyCheckpointed] = value })
			w.rest()
		}
		for _, name := range []string{"g-0", "g-1"} {
			if got := w.pod(name).Annotations[v1alpha1.KeyEvictAt]; got != deadline {
				t.Fatalf("%s reads %q, want %q", name, got, deadline)
			}
			acknowledge(name, at.Add(-time.Hour).Format(time.RFC3339))
		}
		acknowledge("g-0", deadline)
		if len(ends.ended()) > 0 {
			t.Fatalf("ended %q", ends.ended())
		}
		acknowledge("g-1", deadline)
		if len(ends.ended()) != 2 || time.Now().After(at) {
			t.Errorf("ended %q at %s", ends.ended(), time.Now())
		}
		if diff := cmp.Diff([]string{"n1"}, w.at("new")); diff != "" {
			t.Error(diff)
		}
	})
}

// A scheduler that is killed after it marked the victim, or warned it, has a successor that goes on with this victim,
// and with no other. The place goes to the one that it was made for, though another is before it in line.
func TestASuccessorFinishesAnEviction(t *testing.T) {
	for name, warning := range map[string]time.Duration{"marked": 0, "warned": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := full(t)
				ends := w.ends(10 * time.Second)
				ends.answer(func(string, bool) error { return errors.New("connection refused") })
				stop := w.start(o.options)
				o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed, At: time.Now().Add(warning)})
				first := pod("a-first", 1)
				first.CreationTimestamp = metav1.Time{Time: time.Now().Add(-time.Hour)}
				w.add(first)
				w.rest()
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				ends.answer(nil)
				o = &orders{w: w}
				w.start(o.options)
				if diff := cmp.Diff([]string{"evicts default/old", "holds n1 for default/new"}, o.known()); diff != "" {
					t.Error(diff)
				}
				w.after(2 * time.Minute)
				if diff := cmp.Diff([]string{"n1", ""}, w.at("new", "a-first")); diff != "" {
					t.Error(diff)
				}
				if got := ends.ended(); len(got) != 1 || !strings.HasPrefix(got[0], "old Reclaimed, reclaimed for pod default/new: ") {
					t.Errorf("ended %q", got)
				}
			})
		})
	}
}

// A successor goes by the data in the victim's status, whatever the sentence beside it says. Where there is no data, as an
// older version left it, nothing is taken for an eviction: what the pod says is taken back, and all is decided anew.
func TestASuccessorReadsDataAndNoSentence(t *testing.T) {
	for name, c := range map[string]struct {
		drop corev1.PodConditionType
		want []string
	}{
		"another sentence": {"", []string{"evicts default/old", "holds n1 for default/new"}},
		"no data":          {v1alpha1.PodEviction, []string{"holds n1 for default/new"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, o := full(t)
				ends := w.ends(10 * time.Second)
				ends.answer(func(string, bool) error { return errors.New("connection refused") })
				stop := w.start(o.options)
				o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
				w.add(pod("younger", 1))
				w.rest()
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				w.edit("old", func(p *corev1.Pod) {
					p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.drop })
					for i := range p.Status.Conditions {
						if at := &p.Status.Conditions[i]; at.Type == corev1.DisruptionTarget {
							at.Message = "reclaimed for pod default/younger: in other words"
						}
					}
				})
				o = &orders{w: w}
				w.start(o.options)
				if diff := cmp.Diff(c.want, o.known()); diff != "" {
					t.Error(diff)
				}
				if got := w.holds("old"); (len(got) == 0) != (c.drop != "") {
					t.Errorf("old says %q", got)
				}
			})
		})
	}
}

// A scheduler that is killed while the victim ends has a successor that keeps the place.
func TestASuccessorKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(10 * time.Minute)
		stop := w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
		first := pod("a-first", 1)
		first.CreationTimestamp = metav1.Time{Time: time.Now().Add(-time.Hour)}
		w.add(first)
		w.rest()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		o = &orders{w: w}
		w.start(o.options)
		w.after(11 * time.Minute)
		if diff := cmp.Diff([]string{"n1", ""}, w.at("new", "a-first")); diff != "" {
			t.Error(diff)
		}
		if len(ends.ended()) != 1 {
			t.Errorf("ended %q", ends.ended())
		}
	})
}

// A successor whose predecessor marked a victim for somebody who is gone by now leaves it in peace.
func TestASuccessorCallsAnEvictionOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		ends.answer(func(string, bool) error { return errors.New("connection refused") })
		stop := w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
		w.add(pod("younger", 1))
		w.rest()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		ends.answer(nil)
		w.remove("pods", "default", "new")
		o = &orders{w: w}
		w.start(o.options)
		w.after(time.Minute)
		if len(ends.ended()) > 0 || len(w.holds("old")) > 0 || len(o.known()) > 0 {
			t.Errorf("ended %q, old says %q, the engine knows %q", ends.ended(), w.holds("old"), o.known())
		}
	})
}

// A move asks the eviction API, which heeds disruption budgets. The victim was to go on elsewhere.
func TestAMoveGoesThroughTheEvictionAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		w.start(o.options)
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Moved, To: "n2"})
		w.add(pod("younger", 1))
		w.rest()
		if diff := cmp.Diff([]string{"old via API"}, ends.ended()); diff != "" {
			t.Error(diff)
		}
		want := []string{"MovedForPlace: moved for pod default/new: a larger place becomes whole, and node n2 has room for what follows it"}
		if diff := cmp.Diff(want, w.said("old")); diff != "" {
			t.Error(diff)
		}
	})
}

// Who only looks on ends nobody and says nothing.
func TestAShadowEvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		ends := w.ends(0)
		w.start(o.options, func(o *Options) { o.Shadow = true })
		o.give(engine.Eviction{Pod: "old", For: "new", Cause: engine.Reclaimed})
		w.add(pod("younger", 1))
		w.after(time.Minute)
		if len(ends.ended()) > 0 || len(w.patched()) > 0 || len(w.said("old")) > 0 {
			t.Errorf("ended %q, patched %q, said %q", ends.ended(), w.patched(), w.said("old"))
		}
	})
}

// A nomination that is not ours counts as one, and is left alone.
func TestNominationsOfOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := full(t)
		w.edit("new", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
		w.start(o.options)
		w.after(10 * time.Minute)
		if got := w.pod("new").Status.NominatedNodeName; got != "n1" {
			t.Errorf("nominated for %q", got)
		}
		i := slices.IndexFunc(o.last.Pods, func(p engine.Pod) bool { return p.Key == "default/new" })
		if i < 0 || o.last.Pods[i].Nominated != "n1" || len(o.last.Holds) > 0 {
			t.Errorf("the engine knows %+v", o.last)
		}
	})
}

// begun is what the engine remembers as of its first plan.
func (o *orders) begun() []string {
	o.mu.Lock()
	last := o.last
	o.last = o.first
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.last = last
	}()
	return o.known()
}

// A pod that loses its share of what is held says so no more.
func TestAPlaceBecomesSmaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := pod("old", 2)
		old.Spec.NodeName = "n1"
		w := newWorld(t, append(gang("g", 2), node("n1", "r1", 2), old)...)
		var mu sync.Mutex
		held := int64(2)
		w.start(func(o *Options) {
			o.Decisions.Dir = ""
			o.plan = func(s *engine.State, now time.Time) engine.Plan {
				plan := s.Plan(now)
				mu.Lock()
				defer mu.Unlock()
				if held > 0 {
					h := &engine.Hold{Gang: "default/gang/g", Node: "n1", Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: held}}, Until: plan.Now.Add(10 * time.Minute)}
					plan.Changes = append(slices.Clone(plan.Changes), engine.Change{Hold: h})
					held = 0
				}
				return plan
			}
		})
		nominated := func() (out []string) {
			for _, name := range []string{"g-0", "g-1"} {
				out = append(out, w.pod(name).Status.NominatedNodeName+" "+strings.Join(w.holds(name), ","))
			}
			return out
		}
		if diff := cmp.Diff([]string{"n1 berth.dev/PlaceHeld MakingRoom", "n1 berth.dev/PlaceHeld MakingRoom"}, nominated()); diff != "" {
			t.Fatal(diff)
		}
		locked(w, func() bool { mu.Lock(); defer mu.Unlock(); held = 1; return true })
		w.add(pod("stirs", 1))
		w.rest()
		if diff := cmp.Diff([]string{"n1 berth.dev/PlaceHeld MakingRoom", " "}, nominated()); diff != "" {
			t.Error(diff)
		}
	})
}

// A scheduler that is killed after it marked a member of a gang that ran under its minimum has a successor that looks at the gang anew: where
// it is whole by then, the member does not go on saying that it ends.
func TestASuccessorFindsAGangWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("p", 1)
		p.Spec.NodeName, p.Status.Phase = "n1", corev1.PodRunning
		said := report.Eviction{Cause: engine.Broken, At: time.Now()}
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: report.UnderMinimum, Message: said.Sentence()},
			corev1.PodCondition{Type: v1alpha1.PodEviction, Status: corev1.ConditionTrue, Reason: report.UnderMinimum, Message: said.Text()},
		)
		w := newWorld(t, node("n1", "r1", 1), p)
		w.start()
		if got := w.holds("p"); len(got) > 0 {
			t.Errorf("it says %q", got)
		}
	})
}
