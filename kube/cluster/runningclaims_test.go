package cluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/inventory"
	"github.com/berth-dev/berth/kube/convert"
	upstream "github.com/berth-dev/berth/kube/devices"
)

// claimed is a cluster of two nodes with two cards each, which claims have.
type claimed struct {
	*clock
	state   *engine.State
	version int
}

func newClaimed() *claimed {
	w := &claimed{clock: newClock(), state: engine.Load(engine.Snapshot{}, engine.Config{})}
	decideClaims(w.Feed)
	w.Set(cardClass())
	for _, name := range []string{"n0", "n1"} {
		n := node(name, "r1", 0)
		n.ResourceVersion = w.next()
		w.Set(n)
		w.Set(cardsOn(name, "a", "b"))
	}
	return w
}

// decideClaims has the feed evaluate selections of devices, before it knows of any.
func decideClaims(f *Feed) {
	f.devices.Inventory = inventory.New(upstream.NewMatcher(), nil, f.devices.gpu)
}

func cardClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "cards"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}},
	}}
}

// cardsOn offers whole GPUs of the names.
func cardsOn(node string, names ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: refereeDriver, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, NodeName: &node,
	}}
	for _, name := range names {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: new("gpu")}}})
	}
	return s
}

func (w *claimed) next() string {
	w.version++
	return fmt.Sprint(w.version)
}

// runs is a pod of a ReplicaSet that runs with the claims.
func (w *claimed) runs(name, node string, claims ...*resourcev1.ResourceClaim) *corev1.Pod {
	p := pod(name, 0)
	p.UID, p.ResourceVersion, p.Spec.NodeName, p.Status.Phase = types.UID(name), w.next(), node, corev1.PodRunning
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "set", UID: "set", Controller: new(true)}}
	for i, c := range claims {
		called := fmt.Sprint("c", i)
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: called, ResourceClaimTemplateName: new("one-card")})
		p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: called, ResourceClaimName: &c.Name})
	}
	return p
}

// claim asks for a card and has one of the node, if one is named.
func (w *claimed) claim(name, node, device string, users ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: w.next()}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "cards", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	if node != "" {
		c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: refereeDriver, Pool: node, Device: device},
		}}}
	}
	for _, u := range users {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: u, UID: types.UID(u)})
	}
	return c
}

// madeFor is the claim as one that was made of a template for the pod.
func madeFor(pod string, c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID(pod), Controller: new(true)}}
	return c
}

// told is what the engine knows of the pod's devices: which it has, and which the next one will ask for.
type told struct {
	Has  []string
	Asks string
}

func (w *claimed) told(name string) told {
	w.Settle()
	w.state.Apply(w.changes.take()...)
	m := w.members.pods["default/"+name]
	if m == nil || !m.given {
		return told{}
	}
	out := told{Has: m.value.Devices}
	if c := m.value.Claims; c != nil {
		for _, r := range c.Requests {
			out.Asks += fmt.Sprintf("%s:%d ", r.Name, r.Options[0].Count)
		}
		if c.Counted {
			out.Asks += "counted"
		}
	}
	return out
}

const card0 = refereeDriver + "/n0/a"

// Of a pod that runs the engine knows the devices that it has, whoever allocated them. What the next one will ask for it knows where the next
// one will have claims of its own; where it will come to a claim that has its devices already, it cannot be anywhere else.
func TestClaimsOfRunningPods(t *testing.T) {
	standing := func(p *corev1.Pod, c *resourcev1.ResourceClaim) *corev1.Pod {
		p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "c0", ResourceClaimName: &c.Name}
		return p
	}
	for name, tc := range map[string]struct {
		given func(w *claimed) // has a pod "a" run on n0
		want  told
	}{
		"a claim of its own": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
		}, told{[]string{card0}, "c0/r:1 "}},
		"the claim comes after the pod": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(w.runs("a", "n0", c))
			w.told("a")
			w.Set(c)
		}, told{[]string{card0}, "c0/r:1 "}},
		"two claims of its own": {func(w *claimed) {
			c, d := madeFor("a", w.claim("c", "n0", "a", "a")), madeFor("a", w.claim("d", "n0", "b", "a"))
			w.Set(c)
			w.Set(d)
			w.Set(w.runs("a", "n0", c, d))
		}, told{[]string{card0, refereeDriver + "/n0/b"}, "c0/r:1 c1/r:1 "}},
		"a claim that has a name": {func(w *claimed) {
			c := w.claim("c", "n0", "a", "a")
			w.Set(c)
			w.Set(standing(w.runs("a", "n0", c), c))
		}, told{Has: []string{card0}}},
		"one of its own and one that has a name": {func(w *claimed) {
			c, d := w.claim("c", "n0", "a", "a"), madeFor("a", w.claim("d", "n0", "b", "a"))
			w.Set(c)
			w.Set(d)
			w.Set(standing(w.runs("a", "n0", c, d), c))
		}, told{Has: []string{card0, refereeDriver + "/n0/b"}}},
		"shared by several pods": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a", "b"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
			w.Set(standing(w.runs("b", "n0", c), c))
		}, told{Has: []string{card0}}},
		"shared with a pod that is over": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a", "b"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
			b := standing(w.runs("b", "n0", c), c)
			w.Set(b)
			w.told("a")
			w.Set(edited(b, func(p *corev1.Pod) { p.Status.Phase, p.ResourceVersion = corev1.PodSucceeded, w.next() }))
		}, told{[]string{card0}, "c0/r:1 "}},
		"its device is gone from the slice": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
			w.told("a")
			w.Set(cardsOn("n0", "b"))
		}, told{[]string{card0}, "c0/r:1 "}},
		"its slice is gone": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
			w.Remove(cardsOn("n0"))
		}, told{[]string{card0}, "c0/r:1 "}},
		"the class is gone": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(w.runs("a", "n0", c))
			w.told("a")
			w.Remove(cardClass())
		}, told{Has: []string{card0}}},
		"the class comes again": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Remove(cardClass())
			w.Set(w.runs("a", "n0", c))
			w.told("a")
			w.Set(cardClass())
		}, told{[]string{card0}, "c0/r:1 "}},
		"of another scheduler": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(edited(w.runs("a", "n0", c), func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName }))
		}, told{Has: []string{card0}}},
		"nobody makes it again": {func(w *claimed) {
			c := madeFor("a", w.claim("c", "n0", "a", "a"))
			w.Set(c)
			w.Set(edited(w.runs("a", "n0", c), func(p *corev1.Pod) { p.OwnerReferences = nil }))
		}, told{Has: []string{card0}}},
		"for a count": {func(w *claimed) {
			class := cardClass()
			class.Spec.ExtendedResourceName = new("example.com/card")
			w.Set(class)
			p := w.runs("a", "n0")
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/card": resource.MustParse("1")}
			c, _ := convert.ExtendedClaim(p, func(string) *resourcev1.DeviceClass { return class })
			has := w.claim(c.Name, "n0", "a", "a")
			has.Annotations, has.OwnerReferences, has.Spec = c.Annotations, c.OwnerReferences, c.Spec
			w.Set(has)
			w.Set(p)
		}, told{[]string{card0}, "resources/container-0-request-0:1 counted"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newClaimed()
			tc.given(w)
			if diff := cmp.Diff(tc.want, w.told("a")); diff != "" {
				t.Error(diff)
			}
			if got := w.told("a"); w.changes != nil || !cmp.Equal(got, tc.want) {
				t.Errorf("told again, though nothing changed: %+v", got)
			}
		})
	}
}

// A claim that is reserved for a pod which is over has its device until somebody takes it away.
func TestClaimsOfFinishedPods(t *testing.T) {
	w := newClaimed()
	c := madeFor("a", w.claim("c", "n0", "a", "a"))
	w.Set(c)
	a := w.runs("a", "n0", c)
	w.Set(a)
	taken := func() (out []string) {
		w.told("a")
		for _, o := range w.nodes.given["n0"].Offers {
			if o.Taken {
				out = append(out, o.ID)
			}
		}
		return out
	}
	if got := taken(); got != nil {
		t.Errorf("while it runs nobody else has %q", got)
	}
	w.Set(edited(a, func(p *corev1.Pod) { p.Status.Phase, p.ResourceVersion = corev1.PodSucceeded, w.next() }))
	if diff := cmp.Diff([]string{card0}, taken()); diff != "" {
		t.Error(diff)
	}
	w.Set(madeFor("a", w.claim("c", "", "")))
	if got := taken(); got != nil {
		t.Errorf("given back, %q are taken", got)
	}
}

// However many different claims run, those that wait are decided, and nothing is told twice.
func TestManyKindsOfRunningClaims(t *testing.T) {
	w := newClaimed()
	asks := func(c *resourcev1.ResourceClaim, i int) *resourcev1.ResourceClaim {
		c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("%d >= 0", i)}}}
		return c
	}
	selections := func() []string { return w.nodes.given["n0"].Offers[0].Selections } // all of them mean every card
	for i := range inventory.MaxSelections + 50 {
		name := fmt.Sprint("a", i)
		c := asks(madeFor(name, w.claim("c-"+name, "n0", "a", name)), i)
		w.Set(c)
		w.Set(w.runs(name, "n0", c))
	}
	w.told("")
	if n := len(selections()); n > inventory.MaxSelections/2 {
		t.Errorf("%d selections of pods that run", n)
	}
	const waiting = inventory.MaxSelections - 50
	for i := range waiting {
		name := fmt.Sprint("w", i)
		c := asks(madeFor(name, w.claim("c-"+name, "", "")), 1000+i)
		w.Set(c)
		w.Set(w.runs(name, "", c))
	}
	for range 3 {
		w.told("")
	}
	w.Settle()
	if len(w.changes) > 0 || len(w.devices.pods) > 0 {
		t.Errorf("%d changes and %d pods to look at, and nothing happened", len(w.changes), len(w.devices.pods))
	}
	if n := len(selections()); n != waiting {
		t.Errorf("%d selections, though %d pods wait: those that run are to make room", n, waiting)
	}
	for i := range waiting {
		if m := w.members.pods[fmt.Sprint("default/w", i)]; m.value == nil || m.value.Claims == nil || !slices.Contains(selections(), m.value.Claims.Requests[0].Options[0].Selection) {
			t.Fatalf("w%d is not decided", i)
		}
	}
}

// Whole GPUs that claims have lie scattered, and a pod needs both of a node: one of those that run is moved, onto a card that is kept for it.
// One whose claim has a name stays, though it would cost less.
func TestRunningClaimsAreMoved(t *testing.T) {
	w := newClaimed()
	w.Set(cardsOn("n2", "a", "b"))
	n := node("n2", "r1", 0)
	n.ResourceVersion = w.next()
	w.Set(n)
	named := w.claim("named", "n0", "a", "a")
	w.Set(named)
	a := w.runs("a", "n0", named)
	a.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "c0", ResourceClaimName: &named.Name}
	w.Set(a)
	for name, node := range map[string]string{"b": "n1", "c": "n2"} {
		own := madeFor(name, w.claim("own-"+name, node, "a", name))
		w.Set(own)
		w.Set(w.runs(name, node, own))
	}
	both := madeFor("wants", w.claim("both", "", ""))
	both.Spec.Devices.Requests[0].Exactly.Count = 2
	w.Set(both)
	w.Set(w.runs("wants", "", both))
	w.told("wants")
	plan := w.state.Plan(noon)
	if len(plan.Evictions) != 1 || plan.Evictions[0].Pod == "default/a" {
		t.Fatalf("evicted %+v\n%s", plan.Evictions, engine.Describe(plan))
	}
	moved, kept := w.members.pods[plan.Evictions[0].Pod].pod.Spec.NodeName, []string(nil)
	for _, ch := range plan.Changes {
		if ch.Hold != nil && ch.Hold.Node != moved {
			kept = append(kept, ch.Hold.Devices...)
		}
	}
	if len(kept) != 1 {
		t.Errorf("kept for what is moved: %q\n%s", kept, engine.Describe(plan))
	}
}

// Shares of GPUs that claims have lie scattered, and a pod needs more of one GPU than is left of any: a share is moved, onto the GPU on which it
// has room.
func TestSharesOfRunningClaimsAreMoved(t *testing.T) {
	const memory resourcev1.QualifiedName = "memory"
	w := newClaimed()
	for _, node := range []string{"n0", "n1"} {
		s := cardsOn(node, "a")
		d := &s.Spec.Devices[0]
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{memory: {Value: resource.MustParse("80Gi")}}
		s.Spec.Pool.Generation++
		w.Set(s)
	}
	share := func(pod, node, size string) *resourcev1.ResourceClaim {
		c := madeFor(pod, w.claim("claim-"+pod, node, "a", pod))
		asked := map[resourcev1.QualifiedName]resource.Quantity{memory: resource.MustParse(size)}
		c.Spec.Devices.Requests[0].Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: asked}
		if c.Status.Allocation != nil {
			r := &c.Status.Allocation.Devices.Results[0]
			r.ShareID, r.ConsumedCapacity = new(types.UID("share-of-"+pod)), asked
		} else {
			c.Status.ReservedFor = nil
		}
		w.Set(c)
		return c
	}
	for name, node := range map[string]string{"a": "n0", "b": "n1"} {
		w.Set(w.runs(name, node, share(name, node, "30Gi")))
	}
	w.Set(w.runs("wants", "", share("wants", "", "60Gi")))
	w.told("wants")
	plan := w.state.Plan(noon)
	if len(plan.Evictions) != 1 || plan.Evictions[0].Cause != engine.Moved {
		t.Fatalf("evicted %+v, and a is %+v\n%s", plan.Evictions, w.told("a"), engine.Describe(plan))
	}
}
