package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	upstream "github.com/berth-dev/berth/kube/devices"
)

// TestClaimsAsUpstream has Kubernetes' own allocator judge what the engine decides about random claims, devices and classes. Where the
// engine places a pod, the allocator can meet its claims on that node, and makes the allocation out of the very devices of the plan. Where the
// engine places it nowhere, the allocator meets them on no node. REFEREE_WORLDS=10000 plays as many worlds.
func TestClaimsAsUpstream(t *testing.T) {
	placed, refused, shares, failing, apart := 0, 0, 0, 0, 0
	worlds := uint64(1500)
	if text := os.Getenv("REFEREE_WORLDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("REFEREE_WORLDS: %v", err)
		}
		worlds = max(n, worlds)
	}
	for seed := range worlds + 1 {
		if seed == worlds {
			seed = 6765 // upstream gives up on a request of all devices, where it tries those of others first
		}
		w := newReferee(seed)
		made := w.play()
		allocator := upstream.NewAllocator()
		with := func(offered []*resourcev1.ResourceSlice) func(*corev1.Node) bool {
			free := allocator(offered, w.classes, w.held)
			return func(n *corev1.Node) bool {
				for again := 0; ; again++ {
					ok, err := free(n, []*resourcev1.ResourceClaim{w.claim})
					switch {
					case err == nil:
						return ok
					case again == 3 || !errors.Is(err, context.DeadlineExceeded): // half a second is little on a busy machine
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
			}
		}
		fits := with(w.slices)
		if w.fails() {
			failing++
		}
		if w.groups() {
			apart++
		}
		plan := w.state.Plan(noon)
		switch i := slices.IndexFunc(w.nodes, fits); {
		case len(plan.Starts) == 1:
			placed++
			at := plan.Starts[0].Placements[0]
			if n := w.nodes[slices.IndexFunc(w.nodes, func(n *corev1.Node) bool { return n.Name == at.Node })]; !fits(n) {
				t.Errorf("seed %d: placed on %s with %q, where upstream finds no devices\n%s", seed, at.Node, at.Devices, made)
			}
			want := DeviceWant{Pod: at.Pod, UID: "wants", Node: at.Node, Claims: []string{"default/wanted"}, Devices: at.Devices}
			scene := w.Scene(want)
			if got, err := upstream.NewMaker()(context.Background(), scene.Node, scene.Slices, scene.Classes, scene.Claims, scene.Held); err != nil {
				t.Errorf("seed %d: upstream does not allocate %q on %s: %v\n%s", seed, at.Devices, at.Node, err, made)
			} else if have := w.texts(got); !admins(scene.Claims) && !within(drawn(have), drawn(at.Devices)) {
				t.Errorf("seed %d: upstream allocates %q, the plan is %q\n%s", seed, have, at.Devices, made)
			}
			if slices.ContainsFunc(at.Devices, func(text string) bool { return strings.Contains(text, "?") }) {
				shares++
			}
		case i >= 0:
			t.Errorf("seed %d: waits, and upstream finds devices on %s: %v\n%s", seed, w.nodes[i].Name, plan.Waiting, made)
		default:
			refused++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("placed %d, %d of them with shares; refused %d; a selector fails in %d; groups in %d", placed, shares, refused, failing, apart)
	if placed < 300 || shares < 100 || refused < 100 || failing < 100 || apart < 100 {
		t.Error("too few of one of these for a test")
	}
}

// texts is what the allocations hold, sorted, as plans have it.
func (w *referee) texts(made []resourcev1.AllocationResult) (out []string) {
	for i := range made {
		c := &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &made[i]}}
		for _, text := range w.devices.Held(c) {
			text, _, _ = strings.Cut(text, "#")
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// drawn is what is had of each device: 1, or what shares draw on its capacity.
func drawn(devices []string) map[string]int64 {
	out := make(map[string]int64)
	for _, text := range devices {
		out[engine.DeviceOf(text)] = 1
		s, _ := engine.ParseShare(text)
		for _, d := range s.Draws {
			out[s.Device+"?"+d.Counter] += d.Amount
		}
	}
	return out
}

func within(some, all map[string]int64) bool {
	for name, amount := range some {
		if amount > all[name] {
			return false
		}
	}
	return true
}

// fails says whether a selector fails for some device.
func (w *referee) fails() bool {
	for _, n := range w.Feed.nodes.given {
		if slices.ContainsFunc(n.Offers, func(o engine.Offer) bool { return len(o.Fails) > 0 }) {
			return true
		}
	}
	return false
}

// groups says whether devices go together by groups.
func (w *referee) groups() bool {
	for _, n := range w.Feed.nodes.given {
		if slices.ContainsFunc(n.Offers, func(o engine.Offer) bool { return len(o.Groups) > 0 }) {
			return true
		}
	}
	return false
}

// referee is a cluster with devices, of which claims have some, and one pod that waits with a claim.
type referee struct {
	*clock
	*rand.Rand
	state   *engine.State
	nodes   []*corev1.Node
	slices  []*resourcev1.ResourceSlice
	classes []*resourcev1.DeviceClass
	held    []*resourcev1.ResourceClaim
	claim   *resourcev1.ResourceClaim
}

const refereeDriver = "gpu.example.com"

func newReferee(seed uint64) *referee {
	w := &referee{clock: &clock{now: noon}, Rand: rand.New(rand.NewPCG(seed, 17))}
	w.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Sink: &w.changes, Listener: &silence{missing: make(map[string][]string)},
		Selects: upstream.NewMatcher(), Derives: upstream.NewDeriver(), Now: func() time.Time { return w.now },
	})
	w.state = engine.Load(engine.Snapshot{}, engine.Config{})
	return w
}

func (w *referee) odds(one int) bool { return w.IntN(one) == 0 }

// play makes the cluster and gives it to the engine. It returns what was made, for people.
func (w *referee) play() (made string) {
	for _, name := range []string{"any", "a"} {
		expression := fmt.Sprintf("device.driver == %q", refereeDriver)
		if name == "a" {
			expression = fmt.Sprintf("device.attributes[%q].kind == 'a'", refereeDriver)
		}
		w.classes = append(w.classes, &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}},
		})
	}
	for i := range 1 + w.IntN(3) {
		name := fmt.Sprint("n", i)
		w.nodes = append(w.nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", Labels: map[string]string{"kubernetes.io/hostname": name, "rack": fmt.Sprint("r", w.IntN(2))}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8"), "pods": resource.MustParse("10")}},
		})
		if w.odds(2) {
			w.nodes[i].Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
		}
		w.pool(name, &name)
	}
	for i := range 2 {
		if w.odds(3) {
			w.pool(fmt.Sprint("far-", i), nil)
		}
	}
	w.hold()
	w.claim = w.wanted()
	for _, c := range w.classes {
		w.Set(c)
	}
	for _, s := range w.slices {
		w.Set(s)
	}
	for _, c := range append(slices.Clone(w.held), w.claim) {
		w.Set(c)
	}
	for _, n := range w.nodes {
		w.Set(n)
	}
	w.Set(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod", UID: "wants", ResourceVersion: "2"},
		Spec: corev1.PodSpec{
			SchedulerName: DefaultName, Containers: []corev1.Container{{Name: "c"}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "wanted", ResourceClaimName: new("wanted")}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
	w.Settle()
	w.state.Apply(w.changes.take()...)
	for _, s := range w.slices {
		for _, d := range s.Spec.Devices {
			made += fmt.Sprintf("%s/%s of %v kind=%s root=%v draws=%v taints=%v shared=%v capacity=%v\n", s.Spec.Pool.Name, d.Name, []any{s.Spec.NodeName, s.Spec.NodeSelector, d.NodeName, d.NodeSelector}, *d.Attributes["kind"].StringValue, d.Attributes["root"].IntValue != nil, d.ConsumesCounters, d.Taints, d.AllowMultipleAllocations != nil, d.Capacity)
		}
	}
	for _, c := range w.held {
		made += fmt.Sprintf("held %+v\n", c.Status.Allocation.Devices.Results)
	}
	return made + fmt.Sprintf("wanted %+v %+v", w.claim.Spec.Devices.Requests, w.claim.Spec.Devices.Constraints)
}

// pool makes devices of one node, or of all: whole ones, or a card with its halves.
func (w *referee) pool(name string, node *string) {
	pool := resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-devices"}, Spec: resourcev1.ResourceSliceSpec{Driver: refereeDriver, Pool: pool, NodeName: node}}
	rack := func() *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "rack", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("r", w.IntN(2))}},
		}}}}
	}
	if node == nil {
		switch w.IntN(3) {
		case 0:
			s.Spec.AllNodes = new(true)
		case 1:
			s.Spec.NodeSelector = rack()
		case 2:
			s.Spec.PerDeviceNodeSelection = new(true)
		}
	}
	add := func(name string) *resourcev1.Device {
		d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: new([]string{"a", "b"}[w.IntN(2)])}}}
		if !w.odds(5) {
			d.Attributes["root"] = resourcev1.DeviceAttribute{IntValue: new(int64(w.IntN(2)))}
			if w.odds(4) {
				d.Attributes["root"] = resourcev1.DeviceAttribute{IntValues: [][]int64{{0, 1}, {1, 2}, {2}, {0, 1, 1}}[w.IntN(4)]}
			}
		}
		if w.odds(6) {
			d.Taints = []resourcev1.DeviceTaint{{Key: "ill", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		}
		if s.Spec.PerDeviceNodeSelection != nil {
			switch w.IntN(3) {
			case 0:
				d.AllNodes = new(true)
			case 1:
				d.NodeSelector = rack()
			case 2:
				d.NodeName = &w.nodes[w.IntN(len(w.nodes))].Name
			}
		}
		w.capacity(&d)
		if w.odds(6) {
			d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"failed"}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
		return &s.Spec.Devices[len(s.Spec.Devices)-1]
	}
	for i := range w.IntN(4) {
		add(fmt.Sprint("gpu-", i))
	}
	if w.odds(2) {
		slots := func(n int64) map[string]resourcev1.Counter {
			return map[string]resourcev1.Counter{"slots": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
		}
		grouped := w.odds(2)
		for _, d := range []struct {
			name string
			size int64
		}{{"whole", 4}, {"half-0", 2}, {"half-1", 2}, {"most", 3}} {
			use := resourcev1.DeviceCounterConsumption{CounterSet: "card", Counters: slots(d.size)}
			if grouped {
				use.CompatibilityGroups = [][]string{nil, {"mig"}, {"vgpu"}, {"mig", "vgpu"}, {"mig"}, {"mig"}}[w.IntN(6)]
			}
			add(d.name).ConsumesCounters = []resourcev1.DeviceCounterConsumption{use}
		}
		pool.ResourceSliceCount = 2
		s.Spec.Pool = pool
		counters := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-counters"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: refereeDriver, Pool: pool, NodeName: node, AllNodes: s.Spec.AllNodes, NodeSelector: s.Spec.NodeSelector, PerDeviceNodeSelection: s.Spec.PerDeviceNodeSelection, SharedCounters: []resourcev1.CounterSet{{Name: "card", Counters: slots(4)}},
		}}
		w.slices = append(w.slices, counters)
	}
	if w.odds(6) {
		s.Spec.SkipNodeOperations = []resourcev1.SkipNodeOperation{resourcev1.SkipNodeOperationAll}
	}
	w.slices = append(w.slices, s)
}

// capacity gives some devices capacity, and makes some of these, and few others, such that several may have.
func (w *referee) capacity(d *resourcev1.Device) {
	quantity := func(n int) *resource.Quantity { return resource.NewQuantity(int64(n), resource.DecimalSI) }
	if w.odds(3) {
		d.Capacity = make(map[resourcev1.QualifiedName]resourcev1.DeviceCapacity)
		for _, name := range []resourcev1.QualifiedName{"rate", "slots"} {
			if w.odds(3) {
				continue
			}
			c := resourcev1.DeviceCapacity{Value: *quantity(4 + w.IntN(8))}
			switch w.IntN(4) {
			case 0:
				c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: quantity(1), ValidValues: []resource.Quantity{*quantity(1), *quantity(3), *quantity(4)}}
			case 1:
				c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: quantity(2), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: quantity(2), Max: quantity(6), Step: quantity(2)}}
			case 2:
				half := resource.MustParse("500m")
				c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: &half, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: &half, Step: &half}}
			}
			d.Capacity[name] = c
		}
	}
	if w.odds(2) && d.Capacity != nil || w.odds(20) {
		d.AllowMultipleAllocations = new(true)
	}
}

// consumed is some of each capacity of the device, no more than all of it.
func (w *referee) consumed(d *resourcev1.Device) map[resourcev1.QualifiedName]resource.Quantity {
	out := make(map[resourcev1.QualifiedName]resource.Quantity)
	for _, name := range []resourcev1.QualifiedName{"rate", "slots"} {
		if c, has := d.Capacity[name]; has {
			out[name] = *resource.NewQuantity(int64(w.IntN(int(c.Value.Value()))), resource.DecimalSI)
		}
	}
	return out
}

// hold gives some devices to claims whose pods are not known: what is drawn of a card's counters is no more than it has.
func (w *referee) hold() {
	for _, s := range w.slices {
		left := int64(4)
		var on *resourcev1.Device // a device of the card that is held: others are held that are of the same groups
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			if !w.odds(4) {
				continue
			}
			if len(d.ConsumesCounters) > 0 {
				if on != nil && !slices.Equal(on.ConsumesCounters[0].CompatibilityGroups, d.ConsumesCounters[0].CompatibilityGroups) {
					continue
				}
				on = d
			}
			for _, use := range d.ConsumesCounters {
				c := use.Counters["slots"]
				left -= c.Value.Value()
			}
			if left < 0 {
				break
			}
			r := resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: refereeDriver, Pool: s.Spec.Pool.Name, Device: d.Name}
			if d.AllowMultipleAllocations != nil && !w.odds(6) {
				r.ShareID, r.ConsumedCapacity = new(types.UID(fmt.Sprint("share-", len(w.held)))), w.consumed(d)
			}
			w.held = append(w.held, &resourcev1.ResourceClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("held-", len(w.held)), UID: types.UID(fmt.Sprint("held-", len(w.held))), ResourceVersion: "1"},
				Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
					Results: []resourcev1.DeviceRequestAllocationResult{r},
				}}},
			})
		}
	}
}

// wanted is a claim with one or two requests.
func (w *referee) wanted() *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wanted", UID: "wanted", ResourceVersion: "1"}}
	for i := range 1 + w.IntN(2) {
		r := resourcev1.DeviceRequest{Name: fmt.Sprint("r", i)}
		if w.odds(3) {
			for k := range 2 {
				class, selectors, tolerations, mode, count := w.option()
				r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
					Name: fmt.Sprint("s", k), DeviceClassName: class, Selectors: selectors, Tolerations: tolerations, AllocationMode: mode, Count: count, Capacity: w.requirements(),
				})
			}
		} else {
			class, selectors, tolerations, mode, count := w.option()
			r.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: class, Selectors: selectors, Tolerations: tolerations, AllocationMode: mode, Count: count, Capacity: w.requirements()}
			if w.odds(3) {
				r.Exactly.AdminAccess = new(true)
			}
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, r)
	}
	if w.odds(6) {
		w.derive(c)
		return c
	}
	switch w.IntN(4) {
	case 0:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName(refereeDriver + "/root"))}}
	case 1:
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: new(resourcev1.FullyQualifiedName(refereeDriver + "/root"))}}
	}
	return c
}

// derive has the claim's requests agree, or differ, in an attribute that most of them derive: of the kind, which all devices have.
func (w *referee) derive(c *resourcev1.ResourceClaim) {
	name := resourcev1.FullyQualifiedName("derived/" + []string{"kind", "root"}[w.IntN(2)])
	derived := func() []resourcev1.DeviceDerivedAttribute {
		if w.odds(6) {
			return nil
		}
		expression := []string{"%s.kind", "%s.kind == 'a' ? 'b' : 'a'", "%s.kind + ''"}[w.IntN(3)]
		return []resourcev1.DeviceDerivedAttribute{{Name: name, Expression: strings.ReplaceAll(expression, "%s", fmt.Sprintf("device.attributes[%q]", refereeDriver))}}
	}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			r.Exactly.DerivedAttributes = derived()
		}
		for k := range r.FirstAvailable {
			r.FirstAvailable[k].DerivedAttributes = derived()
		}
	}
	if w.odds(2) {
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &name}}
	} else {
		c.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: &name}}
	}
}

// requirements are amounts of capacity that are asked for of each device; nil for none.
func (w *referee) requirements() *resourcev1.CapacityRequirements {
	if !w.odds(4) {
		return nil
	}
	out := &resourcev1.CapacityRequirements{Requests: make(map[resourcev1.QualifiedName]resource.Quantity)}
	for _, name := range []resourcev1.QualifiedName{"rate", "slots"} {
		if w.odds(2) {
			out.Requests[name] = []resource.Quantity{resource.MustParse("1"), resource.MustParse("1500m"), resource.MustParse("2"), resource.MustParse("5")}[w.IntN(4)]
		}
	}
	return out
}

// option is what one request, or one alternative of it, asks for. Not all selectors ask whether there is an attribute before they read it.
func (w *referee) option() (class string, selectors []resourcev1.DeviceSelector, tolerations []resourcev1.DeviceToleration, mode resourcev1.DeviceAllocationMode, count int64) {
	class, mode, count = []string{"any", "a"}[w.IntN(2)], resourcev1.DeviceAllocationModeExactCount, int64(1+w.IntN(2))
	if w.odds(8) {
		mode, count = resourcev1.DeviceAllocationModeAll, 0
	}
	if w.odds(3) {
		selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("'root' in device.attributes[%[1]q] && device.attributes[%[1]q].root == %[2]d", refereeDriver, w.IntN(2))}}}
	}
	if selectors == nil && w.odds(5) {
		selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].root == %d", refereeDriver, w.IntN(2))}}}
	}
	if w.odds(4) {
		tolerations = []resourcev1.DeviceToleration{{Key: "ill", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	return class, selectors, tolerations, mode, count
}
