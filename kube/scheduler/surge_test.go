package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

var setsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}

// webWorld is a world with a Deployment of one replica, web-0, which is on n1; n2 has room for it. job waits for all of a
// node. The part of the controller manager that matters is played, and so are kubelets.
type webWorld struct {
	*world
	t     *testing.T
	ends  *ends
	made  int
	never bool // the pods that are made are never ready
	sleep bool // the controllers do nothing
	stop  chan struct{}
}

func withWeb(t *testing.T, change ...func(*appsv1.Deployment)) *webWorld {
	yes, one := true, int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &one}}
	for _, c := range change {
		c(d)
	}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-h", UID: "web-h", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: &yes}}},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &one},
	}
	fixed := pod("fixed", 1, "preemptible", "false")
	fixed.Spec.NodeName = "n2"
	s := &webWorld{t: t, stop: make(chan struct{})}
	s.world = newWorld(t, node("n1", "r1", 8), node("n2", "r1", 8), d, set, fixed)
	s.ends = s.world.ends(time.Second)
	web := s.replica()
	web.Spec.NodeName = "n1"
	s.add(web)
	s.ready("web-0")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(300 * time.Millisecond):
				s.control()
			}
		}
	}()
	t.Cleanup(func() { close(s.stop); <-ended })
	return s
}

// replica is the next pod of the ReplicaSet.
func (s *webWorld) replica() *corev1.Pod {
	yes := true
	p := pod(fmt.Sprintf("web-%d", s.made), 1)
	s.made++
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "h"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-h", UID: "web-h", Controller: &yes}}
	return p
}

func (s *webWorld) ready(name string) {
	s.edit(name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	})
}

// webs are the replicas there are, and those that were let go.
func (s *webWorld) webs() (out []*corev1.Pod) {
	list, err := s.client.Tracker().List(podsResource, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "default")
	if err != nil {
		s.t.Error(err)
		return nil
	}
	for _, p := range list.(*corev1.PodList).Items {
		if p.Labels["app"] == "web" {
			out = append(out, &p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *webWorld) set() *appsv1.ReplicaSet {
	o, err := s.client.Tracker().Get(setsResource, "default", "web-h")
	if err != nil {
		return nil
	}
	return o.(*appsv1.ReplicaSet)
}

// control does what the ReplicaSet controller does, and kubelets.
func (s *webWorld) control() {
	set := s.set()
	if set == nil || locked(s.world, func() bool { return s.sleep }) {
		return
	}
	var own []*corev1.Pod
	for _, p := range s.webs() {
		ours, known := metav1.GetControllerOf(p) != nil, p.Labels["pod-template-hash"] == "h"
		switch {
		case p.DeletionTimestamp != nil:
			continue
		case ours && !known:
			s.edit(p.Name, func(p *corev1.Pod) { p.OwnerReferences = nil })
			continue
		case !ours && known:
			s.edit(p.Name, func(p *corev1.Pod) { p.OwnerReferences = s.replica().OwnerReferences; s.made-- })
		case !known:
			continue
		}
		own = append(own, p)
		if p.Spec.NodeName != "" && !isReady(p) && !locked(s.world, func() bool { return s.never }) {
			s.ready(p.Name)
		}
	}
	if len(own) < int(*set.Spec.Replicas) {
		s.add(s.replica())
	}
	if len(own) > int(*set.Spec.Replicas) {
		slices.SortFunc(own, func(a, b *corev1.Pod) int { // who goes first
			rank := func(p *corev1.Pod) int {
				switch {
				case p.Spec.NodeName == "":
					return 0
				case !isReady(p):
					return 1
				}
				return 2
			}
			if d := rank(a) - rank(b); d != 0 {
				return d
			}
			return -strings.Compare(a.Name, b.Name)
		})
		_ = s.client.Tracker().Delete(podsResource, "default", own[0].Name)
	}
}

func (s *webWorld) let(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

func (s *webWorld) scale(n int32) {
	set := s.set().DeepCopy()
	s.let(func() { set.Spec.Replicas, set.ResourceVersion = &n, s.next() })
	if err := s.client.Tracker().Update(setsResource, set, "default"); err != nil {
		s.t.Fatal(err)
	}
}

// shown is the replicas: "web-0 n1 released".
func (s *webWorld) shown() []string {
	out := []string{}
	for _, p := range s.webs() {
		line := p.Name + " " + p.Spec.NodeName
		if p.Labels["pod-template-hash"] == "" {
			line += " released"
		}
		if p.Annotations[v1alpha1.KeySurge] != "" {
			line += " surging"
		}
		out = append(out, line)
	}
	return out
}

func (s *webWorld) want(replicas ...string) {
	s.t.Helper()
	if diff := cmp.Diff(append([]string{}, replicas...), s.shown()); diff != "" {
		s.t.Errorf("(-want +got):\n%s", diff)
	}
}

// A replica in the way of a job goes on elsewhere before it ends: at no time is none ready.
func TestASurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withWeb(t)
		s.let(func() { s.never = true })
		s.start()
		s.add(pod("job", 8))
		s.after(3 * time.Second)
		s.want("web-0 n1 released surging", "web-1 n2")
		if got := s.ends.ended(); len(got) > 0 || !isReady(s.pod("web-0")) {
			t.Errorf("ended %q before what follows it is ready", got)
		}
		if got := s.at("job"); got[0] != "" {
			t.Errorf("job is on %q", got[0])
		}
		s.let(func() { s.never = false })
		s.after(5 * time.Second)
		s.want("web-1 n2")
		if diff := cmp.Diff([]string{"n1"}, s.at("job")); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"web-0 via API"}, s.ends.ended()); diff != "" {
			t.Error(diff)
		}
		want := []string{
			"MovedForPlace: moved for pod default/job: a larger place becomes whole, and node n2 has room for what follows it; it stays until that is ready",
			"MovedForPlace: ended: what follows it is ready",
		}
		if diff := cmp.Diff(want, s.said("web-0")); diff != "" {
			t.Error(diff)
		}
	})
}

// What its author does not want two of is evicted before the next one is made.
func TestWhatDoesNotSurge(t *testing.T) {
	zero := intstr.FromInt32(0)
	for name, change := range map[string]func(*appsv1.Deployment){
		"recreate": func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType },
		"no surge": func(d *appsv1.Deployment) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &zero}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := withWeb(t, change)
				s.let(func() { s.never = true })
				s.start()
				s.add(pod("job", 8))
				s.after(5 * time.Second)
				s.want("web-1 n2")
				if diff := cmp.Diff([]string{"n1"}, s.at("job")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// The patch that begins a surge is refused: nothing has happened, and the pod is left alone.
func TestASurgeThatIsRefused(t *testing.T) {
	for name, deny := range map[string]error{
		"conflict":  conflict("the object has been modified"),
		"forbidden": apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := withWeb(t)
				tries := 0
				s.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
					if a.GetSubresource() != "" {
						return false, nil, nil
					}
					s.let(func() { tries++ })
					return true, nil, deny
				})
				o := &orders{w: s.world}
				s.start(func(opts *Options) { opts.plan = o.plan })
				s.add(pod("job", 8))
				s.after(10 * time.Minute)
				s.want("web-0 n1")
				if n := locked(s.world, func() int { return tries }); n == 0 || n > 2 {
					t.Errorf("%d patches", n)
				}
				if diff := cmp.Diff([]string{"refused default/web-0"}, o.known()); diff != "" {
					t.Error(diff)
				}
				if got := s.ends.ended(); len(got) > 0 {
					t.Errorf("ended %q", got)
				}
			})
		})
	}
}

// The answer to the patch is lost, again and again: it was carried out, and the surge is ended cleanly when its time is up.
func TestASurgeWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withWeb(t)
		s.let(func() { s.never = true })
		away := true
		s.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() != "" || !locked(s.world, func() bool { return away }) {
				return false, nil, nil
			}
			_, _, _ = s.patch(a)
			return true, nil, errors.New("connection reset")
		})
		s.start()
		s.add(pod("job", 8))
		s.after(20 * time.Minute)
		s.let(func() { away = false })
		s.after(time.Minute)
		s.want("web-0 n1")
		if got := s.ends.ended(); len(got) > 0 {
			t.Errorf("ended %q", got)
		}
	})
}

// The next pod is never ready. The ReplicaSet gets the old one back, removes the new one, and the job waits.
func TestASurgeThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withWeb(t)
		s.let(func() { s.never = true })
		o := &orders{w: s.world}
		s.start(func(opts *Options) { opts.plan = o.plan })
		s.add(pod("job", 8))
		s.after(10 * time.Minute)
		s.want("web-0 n1 released surging", "web-1 n2")
		s.after(5 * time.Minute)
		s.want("web-0 n1")
		if diff := cmp.Diff([]string{"refused default/web-0"}, o.known()); diff != "" {
			t.Error(diff)
		}
		if got := s.ends.ended(); len(got) > 0 || !isReady(s.pod("web-0")) {
			t.Errorf("ended %q", got)
		}
		if got := s.said("web-0"); len(got) != 2 || !strings.HasPrefix(got[1], "MoveGivenUp: it stays: nothing that follows it was ready by ") {
			t.Errorf("web-0 says %q", got)
		}
		if metav1.GetControllerOf(s.pod("web-0")) == nil {
			t.Error("nobody has web-0")
		}
	})
}

// The ReplicaSet is scaled down, or deleted, while it makes the next pod: the one that it let go is nobody's, and ends.
func TestTheReplicaSetGoesDuringASurge(t *testing.T) {
	for name, do := range map[string]func(*webWorld){
		"scaled": func(s *webWorld) { s.scale(0) },
		"deleted": func(s *webWorld) {
			_ = s.client.Tracker().Delete(setsResource, "default", "web-h")
			_ = s.client.Tracker().Delete(podsResource, "default", "web-1") // as the garbage collector does
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := withWeb(t)
				s.let(func() { s.never = true })
				s.start()
				s.add(pod("job", 8))
				s.after(3 * time.Second)
				s.want("web-0 n1 released surging", "web-1 n2")
				do(s)
				s.after(5 * time.Second)
				s.want()
				if diff := cmp.Diff([]string{"n1"}, s.at("job")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A scheduler that is killed between taking the label off and ending the pod has a successor that goes on: the place of
// the next pod is held for it, and what was to be given up is.
func TestASuccessorFinishesASurge(t *testing.T) {
	for name, never := range map[string]bool{"ready": false, "never ready": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := withWeb(t)
				s.let(func() { s.never, s.sleep = true, true })
				stop := s.start()
				s.add(pod("job", 8))
				s.rest()
				s.want("web-0 n1 released surging")
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				s.let(func() { s.never, s.sleep = never, false })
				s.add(pod("a-thief", 7)) // would take the place of what follows
				o := &orders{w: s.world}
				s.start(func(opts *Options) { opts.plan = o.plan })
				if diff := cmp.Diff([]string{"evicts default/web-0", "holds n1 for default/job", "holds n2 for default/replicaset/web-h"}, o.begun()); diff != "" {
					t.Error(diff)
				}
				s.after(20 * time.Second)
				if !never {
					s.want("web-1 n2")
					if diff := cmp.Diff([]string{"n1", ""}, s.at("job", "a-thief")); diff != "" {
						t.Error(diff)
					}
					return
				}
				s.want("web-0 n1 released surging", "web-1 n2")
				s.after(15 * time.Minute)
				if got := s.shown(); !slices.Contains(got, "web-0 n1") || len(got) != 1 {
					t.Errorf("replicas: %q", got)
				}
			})
		})
	}
}

// The node of the next pod is lost before it is ready. Another is made, which finds no place or one elsewhere; the old
// one stays as long as nothing follows it.
func TestTheNewNodeIsLost(t *testing.T) {
	for name, third := range map[string]bool{"no other place": false, "another place": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := withWeb(t)
				s.let(func() { s.never = true })
				s.start()
				s.add(pod("job", 8))
				s.after(3 * time.Second)
				s.want("web-0 n1 released surging", "web-1 n2")
				s.remove("nodes", "", "n2")
				s.remove("pods", "default", "web-1")
				s.remove("pods", "default", "fixed")
				if third {
					busy := pod("busy", 7, "preemptible", "false")
					busy.Spec.NodeName = "n3"
					s.add(node("n3", "r1", 8))
					s.add(busy)
				}
				s.let(func() { s.never = false })
				s.after(10 * time.Second)
				if third {
					s.want("web-2 n3")
					return
				}
				s.want("web-0 n1 released surging", "web-2 ")
				s.after(15 * time.Minute)
				s.want("web-0 n1")
			})
		})
	}
}

// A disruption budget that says no, or cannot be reckoned because nobody owns the pod, does not keep it: what follows it is
// ready, and so as many are as before.
func TestABudgetDoesNotKeepWhatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withWeb(t)
		asked := 0
		s.ends.answer(func(_ string, eviction bool) error {
			if eviction {
				asked++
				return apierrors.NewTooManyRequests("the disruption budget", 0)
			}
			return nil
		})
		s.start()
		s.add(pod("job", 8))
		s.after(10 * time.Second)
		s.want("web-1 n2")
		if asked == 0 {
			t.Error("the budget was not asked")
		}
	})
}

// A warning is given before a surge begins; a successor in between decides anew.
func TestASurgeIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withWeb(t)
		o := &orders{w: s.world}
		stop := s.start(o.options)
		o.give(engine.Eviction{Pod: "web-0", For: "job", Cause: engine.Moved, To: "n2", Surge: true, At: time.Now().Add(time.Minute)})
		s.add(pod("job", 9)) // which the engine moves nothing for
		s.rest()
		s.want("web-0 n1")
		if diff := cmp.Diff([]string{"berth.dev/EvictionPlanned MovedForPlace", "berth.dev/Eviction MovedForPlace", "Ready "}, s.holds("web-0")); diff != "" {
			t.Error(diff)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s.start((&orders{w: s.world}).options)
		s.after(2 * time.Minute)
		s.want("web-0 n1")
		if diff := cmp.Diff([]string{"Ready "}, s.holds("web-0")); diff != "" {
			t.Error(diff)
		}
	})
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
