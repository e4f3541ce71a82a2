package place

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Device is one that a driver offers.
type Device struct {
	*resourcev1.Device
	driver, pool string
	Slice        *resourcev1.ResourceSlice
	Holder       *resourcev1.ResourceClaim // who has it; nil: nobody
}

func (d *Device) ID() string { return d.driver + "/" + d.pool + "/" + d.Name }

// Devices are all that drivers offer, and who has them.
type Devices struct {
	f          *facts.Facts
	All        []*Device
	onNode     map[string][]*Device // offered for one node alone, by node
	elsewhere  []*Device            // offered for several
	Incomplete []string             // pools of which not all slices are there: driver/pool, sorted
	shared     map[string]map[string]resource.Quantity
	used       map[string]map[string]resource.Quantity // of shared, by driver/pool/set, then counter
}

// OffersOf are the devices that there are, read once.
func OffersOf(f *facts.Facts) *Devices {
	return facts.Derive(f, readDevices)
}

func readDevices(f *facts.Facts) *Devices {
	d := &Devices{f: f, onNode: make(map[string][]*Device), shared: make(map[string]map[string]resource.Quantity), used: make(map[string]map[string]resource.Quantity)}
	newest, slicesOf := make(map[string]int64), make(map[string]int64)
	for _, s := range f.ResourceSlices {
		pool := s.Spec.Driver + "/" + s.Spec.Pool.Name
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	for _, s := range f.ResourceSlices {
		if pool := s.Spec.Driver + "/" + s.Spec.Pool.Name; s.Spec.Pool.Generation == newest[pool] {
			slicesOf[pool]++
		}
	}
	for _, s := range f.ResourceSlices {
		pool := s.Spec.Driver + "/" + s.Spec.Pool.Name
		if s.Spec.Pool.Generation != newest[pool] {
			continue
		}
		if slicesOf[pool] < s.Spec.Pool.ResourceSliceCount {
			d.Incomplete = append(d.Incomplete, pool)
			continue
		}
		d.add(s)
	}
	slices.Sort(d.Incomplete)
	d.Incomplete = slices.Compact(d.Incomplete)
	d.allocated()
	return d
}

func (d *Devices) add(s *resourcev1.ResourceSlice) {
	for _, set := range s.Spec.SharedCounters {
		counters := make(map[string]resource.Quantity)
		for name, c := range set.Counters {
			counters[name] = c.Value
		}
		d.shared[s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+set.Name] = counters
	}
	for i := range s.Spec.Devices {
		v := &Device{Device: &s.Spec.Devices[i], driver: s.Spec.Driver, pool: s.Spec.Pool.Name, Slice: s}
		d.All = append(d.All, v)
		if node := ptr.Deref(s.Spec.NodeName, ""); node != "" {
			d.onNode[node] = append(d.onNode[node], v)
		} else {
			d.elsewhere = append(d.elsewhere, v)
		}
	}
}

// allocated enters who has which device.
func (d *Devices) allocated() {
	byID := make(map[string]*Device, len(d.All))
	for _, v := range d.All {
		byID[v.ID()] = v
	}
	for _, claim := range d.f.ResourceClaims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			v := byID[r.Driver+"/"+r.Pool+"/"+r.Device]
			if v == nil || ptr.Deref(r.AdminAccess, false) || r.ShareID != nil {
				continue // looks on, or has a share
			}
			v.Holder = claim
			d.count(v, d.used, 1)
		}
	}
}

// count adds what the device takes of shared counters, or gives it back.
func (d *Devices) count(v *Device, into map[string]map[string]resource.Quantity, sign int) {
	for _, c := range v.ConsumesCounters {
		set := v.driver + "/" + v.pool + "/" + c.CounterSet
		if into[set] == nil {
			into[set] = make(map[string]resource.Quantity)
		}
		for name, counter := range c.Counters {
			q := into[set][name]
			if sign > 0 {
				q.Add(counter.Value)
			} else {
				q.Sub(counter.Value)
			}
			into[set][name] = q
		}
	}
}

// fits says whether the counters have enough left for the device.
func (d *Devices) fits(v *Device) bool {
	for _, c := range v.ConsumesCounters {
		set := v.driver + "/" + v.pool + "/" + c.CounterSet
		for name, counter := range c.Counters {
			q := d.used[set][name]
			q.Add(counter.Value)
			if limit, ok := d.shared[set][name]; !ok || q.Cmp(limit) > 0 {
				return false
			}
		}
	}
	return true
}

// reach are the devices that a pod on the node could have.
func (d *Devices) reach(n *corev1.Node) []*Device {
	out := slices.Clone(d.onNode[n.Name])
	for _, v := range d.elsewhere {
		name, all, selector := "", ptr.Deref(v.Slice.Spec.AllNodes, false), v.Slice.Spec.NodeSelector
		if ptr.Deref(v.Slice.Spec.PerDeviceNodeSelection, false) {
			name, all, selector = ptr.Deref(v.NodeName, ""), ptr.Deref(v.AllNodes, false), v.NodeSelector
		}
		if all || name == n.Name || selector != nil && selects(selector, n) {
			out = append(out, v)
		}
	}
	return out
}

func selects(s *corev1.NodeSelector, n *corev1.Node) bool {
	parsed, err := nodeaffinity.NewNodeSelector(s)
	return err == nil && parsed.Match(n)
}

// PodClaim is one of the pod's claims of devices.
type PodClaim struct {
	*resourcev1.ResourceClaim        // nil: not made yet
	Name                      string // of the claim, else of the template
	spec                      *resourcev1.DeviceClaim
	written                   facts.Object // that a person wrote: the claim, or the template that it is made from
}

// ClaimsOf are the pod's claims of devices, as far as they, or what they are made from, can be seen.
func ClaimsOf(f *facts.Facts, p *corev1.Pod) []PodClaim {
	var out []PodClaim
	for _, r := range p.Spec.ResourceClaims {
		if r.ResourceClaimName != nil {
			if c := Named(f.ResourceClaims, p.Namespace, *r.ResourceClaimName); c != nil {
				out = append(out, PodClaim{c, c.Name, &c.Spec.Devices, c})
			}
			continue
		}
		t := Named(f.ResourceClaimTemplates, p.Namespace, ptr.Deref(r.ResourceClaimTemplateName, ""))
		c := madeClaim(f, p, r.Name)
		switch {
		case c != nil && t != nil:
			out = append(out, PodClaim{c, c.Name, &c.Spec.Devices, t})
		case c != nil:
			out = append(out, PodClaim{c, c.Name, &c.Spec.Devices, c})
		case t != nil:
			out = append(out, PodClaim{nil, t.Name, &t.Spec.Spec.Devices, t})
		}
	}
	return out
}

// madeClaim is the claim that was made for the pod from a template, nil if there is none yet.
func madeClaim(f *facts.Facts, p *corev1.Pod, of string) *resourcev1.ResourceClaim {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name == of && s.ResourceClaimName != nil {
			return Named(f.ResourceClaims, p.Namespace, *s.ResourceClaimName)
		}
	}
	for _, c := range f.ResourceClaims {
		if c.Namespace == p.Namespace && c.Annotations["resource.kubernetes.io/pod-claim-name"] == of && slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID && p.UID != "" }) {
			return c
		}
	}
	return nil
}

// DeviceAsk is one request for devices, or one of several that would do.
type DeviceAsk struct {
	name        string // request, or request/alternative
	Class       string
	Selectors   []resourcev1.DeviceSelector
	All         bool
	Count       int
	admin       bool
	tolerations []resourcev1.DeviceToleration
}

// deviceAsks are the requests of a claim; each is a list of alternatives, the best first.
func deviceAsks(spec *resourcev1.DeviceClaim) [][]DeviceAsk {
	var out [][]DeviceAsk
	for _, r := range spec.Requests {
		if x := r.Exactly; x != nil {
			out = append(out, []DeviceAsk{{r.Name, x.DeviceClassName, x.Selectors, x.AllocationMode == resourcev1.DeviceAllocationModeAll, max(1, int(x.Count)), ptr.Deref(x.AdminAccess, false), x.Tolerations}})
			continue
		}
		var any []DeviceAsk
		for _, x := range r.FirstAvailable {
			any = append(any, DeviceAsk{r.Name + "/" + x.Name, x.DeviceClassName, x.Selectors, x.AllocationMode == resourcev1.DeviceAllocationModeAll, max(1, int(x.Count)), false, x.Tolerations})
		}
		out = append(out, any)
	}
	return out
}

// InClass says whether the device is of the class, whoever has it. A class that does not exist has none.
func (d *Devices) InClass(v *Device, class string) bool {
	c := Named(d.f.DeviceClasses, "", class)
	return c != nil && Selected(d.f, v, c.Spec.Selectors) == nil
}

// Suits says whether the device is one that is asked for, whoever has it.
func (d *Devices) Suits(v *Device, ask *DeviceAsk) bool {
	return d.InClass(v, ask.Class) && Selected(d.f, v, ask.Selectors) == nil && !slices.ContainsFunc(v.Taints, func(t resourcev1.DeviceTaint) bool {
		return t.Effect != resourcev1.DeviceTaintEffectNone && !slices.ContainsFunc(ask.tolerations, func(o resourcev1.DeviceToleration) bool { return toleratesDevice(&o, &t) })
	})
}

func toleratesDevice(o *resourcev1.DeviceToleration, t *resourcev1.DeviceTaint) bool {
	return (o.Effect == "" || o.Effect == t.Effect) && (o.Key == "" || o.Key == t.Key) &&
		(o.Operator == resourcev1.DeviceTolerationOpExists || o.Key != "" && o.Value == t.Value)
}

// NotSelected is the expression that a device does not match; err where it cannot be worked out for the device.
type NotSelected struct {
	expression string
	Err        error
}

// Selected returns the first selector that the device does not match, nil if it matches all. Without somebody to
// evaluate them all match: what is not known is not said.
func Selected(f *facts.Facts, v *Device, selectors []resourcev1.DeviceSelector) *NotSelected {
	for _, s := range selectors {
		if s.CEL == nil || f.Matches == nil {
			continue
		}
		if ok, err := f.Matches(s.CEL.Expression, v.driver, v.Device); !ok || err != nil {
			return &NotSelected{s.CEL.Expression, err}
		}
	}
	return nil
}

// deviceExclusions keep the pod from nodes where its claims of devices cannot be met.
func deviceExclusions(f *facts.Facts, p *corev1.Pod) []check.Exclusion {
	claims := ClaimsOf(f, p)
	if len(claims) == 0 || !f.Sees("resourceslices.resource.k8s.io", "") || !f.Sees("resourceclaims.resource.k8s.io", "") {
		return nil
	}
	d := OffersOf(f)
	b := check.Exclusion{Kind: check.ByDevices, Nodes: make(map[string]string)}
	for _, n := range f.Nodes {
		if reason := d.refuse(n, claims); reason != "" {
			b.Nodes[n.Name] = reason
		}
	}
	return []check.Exclusion{b}
}

// refuse says why the claims cannot all be met on the node, "" if they can.
func (d *Devices) refuse(n *corev1.Node, claims []PodClaim) string {
	a := &allocation{d: d, reach: d.reach(n), taken: make(map[*Device]bool), steps: 20000}
	for i := range claims {
		c := &claims[i]
		if c.ResourceClaim != nil && c.Status.Allocation != nil {
			if s := c.Status.Allocation.NodeSelector; s != nil && !selects(s, n) {
				return fmt.Sprintf("claim %s has its devices elsewhere", c.Name)
			}
			continue
		}
		for j, any := range deviceAsks(c.spec) {
			if len(any) == 0 {
				return fmt.Sprintf("claim %s asks for nothing in request %d", c.Name, j)
			}
			a.todo = append(a.todo, pendingAsk{c, any})
		}
	}
	ok := a.next(0)
	for len(a.given) > 0 {
		a.back()
	}
	if ok || a.steps <= 0 {
		return ""
	}
	return a.shortage()
}

// shortage says of which request there is too little.
func (a *allocation) shortage() string {
	for _, todo := range a.todo {
		ask, match, free := &todo.any[0], 0, 0
		for _, v := range a.reach {
			if a.d.Suits(v, ask) {
				match++
				if v.Holder == nil {
					free++
				}
			}
		}
		if free < ask.Count || ask.All && free < match {
			return fmt.Sprintf("claim %s asks for %d of class %s, and %d of %s there %s free", todo.claim.Name, ask.Count, ask.Class, free, wording.Number(match, "such device"), wording.InNumber(free, "is", "are"))
		}
	}
	return "the devices that its claims ask for cannot be had together there"
}

// allocation looks for devices for all requests at once.
type allocation struct {
	d     *Devices
	reach []*Device
	todo  []pendingAsk
	taken map[*Device]bool
	given []given
	steps int // left; at 0 the search has given up and nothing is said
}

type pendingAsk struct {
	claim *PodClaim
	any   []DeviceAsk
}

// given is a device for a request, as constraints see it.
type given struct {
	claim *PodClaim
	ask   string
	v     *Device
	admin bool // looks on only
}

// next finds devices for the requests from the i-th on.
func (a *allocation) next(i int) bool {
	if i == len(a.todo) {
		return true
	}
	for k := range a.todo[i].any {
		ask := &a.todo[i].any[k]
		var suit []*Device
		for _, v := range a.reach {
			if a.d.Suits(v, ask) {
				suit = append(suit, v)
			}
		}
		count := ask.Count
		if ask.All {
			count = max(1, len(suit))
		}
		if a.pick(i, ask, suit, 0, count) {
			return true
		}
	}
	return false
}

// pick takes count more of the devices from the given one on, and goes on with the next request.
func (a *allocation) pick(i int, ask *DeviceAsk, suit []*Device, from, count int) bool {
	if count == 0 {
		return a.next(i + 1)
	}
	for k := from; k+count <= len(suit); k++ {
		if a.steps--; a.steps <= 0 {
			return false
		}
		v, claim := suit[k], a.todo[i].claim
		if !a.may(v, ask, claim) {
			continue
		}
		a.give(given{claim, ask.name, v, ask.admin})
		if a.pick(i, ask, suit, k+1, count-1) {
			return true
		}
		a.back()
	}
	return false
}

// may says whether the device can be had beside those that are given already.
func (a *allocation) may(v *Device, ask *DeviceAsk, claim *PodClaim) bool {
	several := ptr.Deref(v.AllowMultipleAllocations, false)
	if !ask.admin && !several && (v.Holder != nil || a.taken[v] || !a.d.fits(v)) {
		return false
	}
	for _, c := range claim.spec.Constraints {
		if !concerns(&c, ask.name) {
			continue
		}
		for _, g := range a.given {
			if g.claim == claim && concerns(&c, g.ask) && !agree(&c, v, g.v) {
				return false
			}
		}
		if c.MatchAttribute != nil && v.attribute(*c.MatchAttribute) == "" || c.DistinctAttribute != nil && v.attribute(*c.DistinctAttribute) == "" {
			return false
		}
	}
	return true
}

func (a *allocation) give(g given) {
	a.given = append(a.given, g)
	if !g.admin {
		a.taken[g.v] = true
		a.d.count(g.v, a.d.used, 1)
	}
}

func (a *allocation) back() {
	g := a.given[len(a.given)-1]
	a.given = a.given[:len(a.given)-1]
	if !g.admin {
		delete(a.taken, g.v)
		a.d.count(g.v, a.d.used, -1)
	}
}

// concerns says whether the constraint is about the request, or one of its alternatives.
func concerns(c *resourcev1.DeviceConstraint, ask string) bool {
	request, _, _ := strings.Cut(ask, "/")
	return len(c.Requests) == 0 || slices.Contains(c.Requests, request) || slices.Contains(c.Requests, ask)
}

// agree says whether two devices satisfy the constraint together.
func agree(c *resourcev1.DeviceConstraint, v, w *Device) bool {
	if c.MatchAttribute != nil && v.attribute(*c.MatchAttribute) != w.attribute(*c.MatchAttribute) {
		return false
	}
	return c.DistinctAttribute == nil || v.attribute(*c.DistinctAttribute) != w.attribute(*c.DistinctAttribute)
}

// attribute is the device's value as text, "" where it has none.
func (d *Device) attribute(name resourcev1.FullyQualifiedName) string {
	a, ok := d.Attributes[resourcev1.QualifiedName(name)]
	if !ok {
		domain, id, _ := strings.Cut(string(name), "/")
		if a, ok = d.Attributes[resourcev1.QualifiedName(id)]; !ok || domain != d.driver {
			return ""
		}
	}
	switch {
	case a.StringValue != nil:
		return "text " + *a.StringValue
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	case a.IntValue != nil:
		return fmt.Sprint("number ", *a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint("is ", *a.BoolValue)
	}
	return fmt.Sprint(a.StringValues, a.VersionValues, a.IntValues, a.BoolValues)
}

// HeldBy are the pods that a claim is reserved for.
func HeldBy(f *facts.Facts, claim *resourcev1.ResourceClaim) []*corev1.Pod {
	var out []*corev1.Pod
	for _, r := range claim.Status.ReservedFor {
		if p := f.PodNamed(claim.Namespace, r.Name); p != nil && r.Resource == "pods" {
			out = append(out, p)
		}
	}
	return out
}
