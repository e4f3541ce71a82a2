package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	upstream "github.com/berth-dev/berth/kube/devices"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// watched is a feed, and the engine behind it, that hears of objects as watches tell of them.
type watched struct {
	*clock
	state *engine.State
}

func newWatched() *watched {
	w := &watched{clock: &clock{now: noon}, state: engine.Load(engine.Snapshot{}, engine.Config{})}
	w.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Sink: &w.changes, Listener: &silence{missing: make(map[string][]string)},
		Selects: upstream.NewMatcher(), Now: func() time.Time { return w.now },
	})
	return w
}

// knows is what the engine was told of objects, without versions.
func (w *watched) knows() engine.Snapshot {
	for range 2 {
		w.Settle()
		w.state.Apply(w.changes.take()...)
	}
	all := w.state.Dump()
	out := engine.Snapshot{Nodes: all.Nodes, Pods: all.Pods, Gangs: all.Gangs, Queues: all.Queues, Disruptions: all.Disruptions}
	asked := askedFor(out.Pods)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.Version = 0
		unasked := func(resource string) bool { return strings.Contains(resource, "/card") && !asked[resource] }
		n.Allocatable = slices.DeleteFunc(slices.Clone(n.Allocatable), func(a engine.Amount) bool { return unasked(a.Resource) })
		if n.ByClaims = slices.DeleteFunc(slices.Clone(n.ByClaims), unasked); len(n.ByClaims) == 0 {
			n.ByClaims = nil
		}
		n.Offers = slices.Clone(n.Offers)
		for j := range n.Offers {
			o := &n.Offers[j]
			var left []string
			for _, s := range o.Selections {
				if asked[s] {
					left = append(left, s)
				}
			}
			o.Selections = left
		}
	}
	for i := range out.Pods {
		out.Pods[i].Version = 0
		if p := &out.Pods[i]; p.Node == "" && (p.Foreign || p.Terminating) { // nobody plans it, and it takes nothing
			*p = engine.Pod{Key: p.Key, UID: p.UID}
		}
		if p := &out.Pods[i]; p.Node == "" && p.Claims != nil { // which devices there are may have changed since it was charged
			p.Claimed, p.Requests = 0, slices.DeleteFunc(slices.Clone(p.Requests), func(a engine.Amount) bool { return a.Resource == DefaultGPU })
			if len(p.Requests) == 0 {
				p.Requests = nil
			}
		}
		if p := &out.Pods[i]; (p.Node != "" || p.Terminating || p.Foreign) && p.PodRules != nil { // what spreads a pod that waits for no place of ours
			rules := *p.PodRules
			if rules.Spread = nil; reflect.DeepEqual(rules, engine.PodRules{}) {
				p.PodRules = nil
			} else {
				p.PodRules = &rules
			}
		}
	}
	for i := range out.Gangs {
		out.Gangs[i].Version = 0
	}
	for i := range out.Queues {
		out.Queues[i].Version = 0
	}
	for i := range out.Disruptions {
		out.Disruptions[i].Version = 0
	}
	return out
}

// askedFor are the selections and resources that pods ask for. What is told of others on nodes is left from pods that are gone.
func askedFor(pods []engine.Pod) map[string]bool {
	out := make(map[string]bool)
	for i := range pods {
		if pods[i].Foreign || pods[i].Terminating {
			continue
		}
		for _, a := range pods[i].Requests {
			out[a.Resource] = out[a.Resource] || pods[i].Node == ""
		}
		if pods[i].Claims == nil {
			continue
		}
		for _, r := range pods[i].Claims.Requests {
			for _, o := range r.Options {
				out[o.Selection] = true
			}
		}
	}
	return out
}

// A node that goes while the watch is cut is taken away as it was last seen, whatever the engine was told of it since.
func TestNodeGoesWhileTheWatchIsCut(t *testing.T) {
	w := newWatched()
	n := node("n1", "r1", 1)
	n.ResourceVersion = "10"
	w.Set(n)
	w.Set(limitOf("n1", 3)) // the node is given again, for what another object says of it
	w.Remove(n)
	if got := w.knows().Nodes; len(got) > 0 {
		t.Errorf("the engine has %v", got)
	}
}

// A pod that its controller let go, as one whose labels somebody took away to look at it, is not the controller's any more: once it is gone,
// nothing that becomes of the controller brings it back.
func TestPodThatIsLetGo(t *testing.T) {
	for name, then := range map[string]func(w *watched, set *appsv1.ReplicaSet){
		"goes":    func(w *watched, set *appsv1.ReplicaSet) { w.Remove(set) },
		"changes": func(w *watched, _ *appsv1.ReplicaSet) { w.Set(&appsv1.ReplicaSet{ObjectMeta: owner("set")}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched()
			set := &appsv1.ReplicaSet{ObjectMeta: owner("set", "gpu-model", "H100")}
			w.Set(set)
			p := pod("p", 1)
			p.UID, p.ResourceVersion = "p", "1"
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "set", UID: "uid-set", Controller: new(true)}}
			w.Set(p)
			w.knows()
			p = p.DeepCopy()
			p.OwnerReferences, p.ResourceVersion = nil, "2"
			w.Set(p)
			w.Remove(p)
			then(w, set)
			if got := w.knows().Pods; len(got) > 0 || len(w.Pods()) > 0 {
				t.Errorf("the engine has %v, the feed %v", got, w.Pods())
			}
		})
	}
}

// A pod that comes before the Job that made it stands, once the Job is there, for no workload but the Job's.
func TestPodComesBeforeItsJob(t *testing.T) {
	w := newWatched()
	w.Speak(all.Find("kueue"))
	p := ownedPod("train", 0)
	p.UID, p.ResourceVersion, p.Labels = "p", "1", map[string]string{"kueue.x-k8s.io/queue-name": "none"} // which keeps it waiting by itself
	w.Set(p)
	w.Settle()
	w.Set(job("train", 1))
	w.Settle()
	var names []string
	for _, g := range w.ForeignGroups() {
		names = append(names, g.Ref.Name)
	}
	if len(names) != 1 || !strings.HasPrefix(names[0], "job-train-") {
		t.Errorf("workloads %q, want that of the Job alone", names)
	}
	w.Remove(p)
	if got := w.ForeignGroups(); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// A pod that was asked for is newer than what the watch has told so far. What the watch tells next, of other pods, is not older for that.
func TestPodsComeAfterOneThatWasAskedFor(t *testing.T) {
	w := newWatched()
	at := func(name, uid, version string) *corev1.Pod {
		p := pod(name, 1)
		p.UID, p.ResourceVersion = types.UID(uid), version
		return p
	}
	w.Set(at("asked", "a", "10"))
	w.Set(at("made-again", "b", "11"))
	w.knows()
	w.RenewPod(at("asked", "a", "900"))
	w.Remove(at("made-again", "b", "20"))
	w.knows()
	w.Set(at("made-again", "c", "21"))
	got := w.knows().Pods
	if len(got) != 2 || got[1].UID != "c" {
		t.Errorf("the engine has %v", got)
	}
	w.Remove(at("asked", "a", "10")) // while the watch was cut
	w.Set(at("asked", "d", "901"))
	if got := w.knows().Pods; len(got) != 2 || got[0].UID != "d" {
		t.Errorf("the engine has %v", got)
	}
}

// A pod that was replaced while the watch was cut is gone, also where the next one of its name is not given to the engine yet.
func TestPodIsReplacedWhileTheWatchIsCut(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"is kept back": func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: new("none")}}
		},
		"has a gate": func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
		"is over":    func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"is awaited": func(p *corev1.Pod) {
			p.OwnerReferences = ownedPod("none", 0).OwnerReferences
			p.CreationTimestamp.Time = noon
		},
		"is as it was": func(*corev1.Pod) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched()
			p := pod("p", 1)
			p.UID, p.ResourceVersion, p.Spec.NodeName = "old", "10", "n1"
			w.Set(p)
			w.knows()
			p = pod("p", 1)
			p.UID, p.ResourceVersion = "new", "20"
			change(p)
			w.Set(p)
			for _, v := range w.knows().Pods {
				if v.UID != "new" {
					t.Errorf("the engine has %v", v)
				}
			}
		})
	}
}

// While Kueue's own controller runs, the pods of suspended Jobs are not expected. When it is gone they are again, though nothing became of the
// Jobs.
func TestExpectedPodsComeBack(t *testing.T) {
	w := newWatched()
	k := all.Find("kueue")
	w.Speak(k)
	j := job("train", 1)
	j.ResourceVersion, j.Generation, j.Spec.Suspend = "10", 1, new(true)
	j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "main"}
	j.Spec.Template.Spec = pod("x", 1).Spec
	w.Set(j)
	if got := w.knows().Pods; len(got) != 1 {
		t.Fatalf("the engine has %v", got)
	}
	w.SetRival(k, "another")
	if got := w.knows().Pods; len(got) != 0 {
		t.Fatalf("the engine has %v", got)
	}
	w.SetRival(k, "")
	if got := w.knows().Pods; len(got) != 1 {
		t.Errorf("the engine has %v", got)
	}
}

// A namespace whose pods become Berth's has its suspended Jobs planned too, and no longer when it is not any more.
func TestNamespaceOfASuspendedJob(t *testing.T) {
	w := newWatched()
	w.Speak(all.Find("kueue"))
	j := job("train", 1)
	j.ResourceVersion, j.Generation, j.Spec.Suspend = "10", 1, new(true)
	j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "main"}
	j.Spec.Template.Spec = pod("x", 1).Spec
	j.Spec.Template.Spec.SchedulerName = ""
	w.Set(j)
	for i, labels := range []map[string]string{nil, {scheduleLabel: "true"}, {"other": "true"}} {
		w.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: labels}})
		if got := w.knows().Pods; len(got) != i%2 {
			t.Errorf("labels %v: the engine has %v", labels, got)
		}
	}
}

// What a pod that waits for extended resources is charged at least follows the devices that several nodes reach.
func TestChargeFollowsDevicesOfSeveralNodes(t *testing.T) {
	w := newWatched()
	class := cardClass()
	class.Spec.ExtendedResourceName = new("example.com/card")
	w.Set(class)
	s := cardsOn("everywhere", "a")
	s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
	p := pod("p", 0)
	p.UID, p.ResourceVersion = "p", "1"
	asks := corev1.ResourceList{"example.com/card": resource.MustParse("1")}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: asks, Limits: asks}
	w.Set(p)
	for i, change := range []func(){func() {}, func() { w.Set(s) }, func() { w.Remove(s) }} {
		change()
		w.knows()
		if got, want := w.state.Dump().Pods[0].Claimed, int64(i%2)*engine.Whole; got != want {
			t.Errorf("step %d: it is charged %d, want %d", i, got, want)
		}
	}
}

// Of workloads that are over nothing is kept once their objects are gone, also by a scheduler that does not lead and writes no statuses.
func TestMemoryOfWorkloadsThatAreGone(t *testing.T) {
	w := newWatched()
	w.Speak(all.Find("kueue"))
	for i := range 20 {
		p := pod(fmt.Sprint("p-", i), 1)
		p.UID, p.ResourceVersion, p.Labels = types.UID(p.Name), fmt.Sprint(10+i), map[string]string{"kueue.x-k8s.io/queue-name": "main"}
		w.Set(p)
		w.knows()
		var stands *unstructured.Unstructured
		for _, g := range w.ForeignGroups() {
			stands = g.Ref.Make()
		}
		w.Set(stands)
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodSucceeded
		w.Set(p)
		w.Remove(p)
		w.Remove(stands)
		w.knows()
	}
	if got := len(w.foreign.groups); got > 0 {
		t.Errorf("%d workloads remembered", got)
	}
}

// A claim that goes between the plan and what is done about it is not passed over: its pod is not bound without.
func TestClaimGoesAfterThePlan(t *testing.T) {
	w := newClaimed()
	c := w.claim("one", "", "")
	p := pod("p", 0)
	p.UID, p.ResourceVersion = "p", w.next()
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &c.Name}}
	w.Set(c)
	w.Set(p)
	w.Settle()
	w.state.Apply(w.changes.take()...)
	starts := w.state.Plan(noon).Starts
	if len(starts) != 1 {
		t.Fatalf("starts %v", starts)
	}
	other := c.DeepCopy()
	other.UID = "other"
	w.Remove(other) // an answer about one that was there before
	if w.ResourceClaim("default/one") == nil {
		t.Error("the claim goes with another of its name")
	}
	w.Remove(c)
	r, _ := w.Reserve(&starts[0])
	if r == nil || len(r.Devices) != 1 || len(r.Devices[0].Claims) != 1 || w.Scene(r.Devices[0]) != nil {
		t.Errorf("to be seen to: %+v", r)
	}
}
