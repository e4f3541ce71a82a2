package place

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/convert"
)

// Device is one that a driver offers.
type Device struct {
	*resourcev1.Device
	driver, pool string
	Slice        *resourcev1.ResourceSlice
	Holder       *resourcev1.ResourceClaim   // the claim that has it; nil: none
	shares       []deviceShare               // of it that claims have
	beside       []*resourcev1.ResourceClaim // who has devices that consume what this one consumes: parts of it, or the whole that it is a part of
}

// deviceShare is what a claim consumes of a device that several have.
type deviceShare struct {
	claim    *resourcev1.ResourceClaim
	consumed map[resourcev1.QualifiedName]resource.Quantity
}

func (d *Device) ID() string { return d.driver + "/" + d.pool + "/" + d.Name }

// Devices are all that drivers offer, and who has them.
type Devices struct {
	f          *facts.Facts
	All        []*Device
	onNode     map[string][]*Device // offered for one node alone, by node
	elsewhere  []*Device            // offered for several
	Incomplete []string             // pools of which not all slices are there: driver/pool, sorted
	allocates  facts.Allocator      // nil: it cannot be said
	short      map[string]shortfall // see Short
	// promised are claims, by node, that will have devices there for pods that are only thought to be there, and at is where each of them
	// that is in the API is, by namespace and name.
	promised map[string][]*resourcev1.ResourceClaim
	at       map[string]string
}

// OffersOf are the devices that there are, read once.
func OffersOf(f *facts.Facts) *Devices {
	return facts.Derive(f, readDevices)
}

func readDevices(f *facts.Facts) *Devices {
	d := &Devices{f: f, onNode: make(map[string][]*Device), short: make(map[string]shortfall)}
	offered := make([]*resourcev1.ResourceSlice, len(f.ResourceSlices))
	for i, s := range f.ResourceSlices {
		offered[i] = convert.Tainted(s, f.DeviceTaintRules)
	}
	if f.NewAllocator != nil {
		d.allocates = f.NewAllocator(offered, f.DeviceClasses, f.ResourceClaims)
	}
	newest, slicesOf := make(map[string]int64), make(map[string]int64)
	for _, s := range offered {
		pool := s.Spec.Driver + "/" + s.Spec.Pool.Name
		newest[pool] = max(newest[pool], s.Spec.Pool.Generation)
	}
	for _, s := range offered {
		if pool := s.Spec.Driver + "/" + s.Spec.Pool.Name; s.Spec.Pool.Generation == newest[pool] {
			slicesOf[pool]++
		}
	}
	for _, s := range offered {
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
	d.counted()
	d.promise()
	return d
}

// promise enters which claims will have devices on which node: a claim that several pods have will once.
func (d *Devices) promise() {
	d.promised, d.at = make(map[string][]*resourcev1.ResourceClaim), make(map[string]string)
	for _, p := range d.f.Placed() {
		claims := ClaimsOf(d.f, p)
		for i := range claims {
			c := &claims[i]
			if c.ResourceClaim != nil {
				if c.Status.Allocation != nil || d.at[c.key()] != "" {
					continue
				}
				d.at[c.key()] = p.Spec.NodeName
			}
			d.promised[p.Spec.NodeName] = append(d.promised[p.Spec.NodeName], c.wanted())
		}
	}
}

func (d *Devices) add(s *resourcev1.ResourceSlice) {
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
			if v == nil || ptr.Deref(r.AdminAccess, false) {
				continue // looks on
			}
			if r.ShareID != nil {
				v.shares = append(v.shares, deviceShare{claim, r.ConsumedCapacity})
				continue
			}
			v.Holder = claim
		}
	}
}

// counted enters which devices cannot be had because others that are taken draw on the same counters, and leave too little: a whole
// GPU of which a slice is in use.
func (d *Devices) counted() {
	type counter struct{ pool, set, name string }
	left := make(map[counter]resource.Quantity)
	for _, s := range d.f.ResourceSlices {
		for _, set := range s.Spec.SharedCounters {
			for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
				left[counter{s.Spec.Driver + "/" + s.Spec.Pool.Name, set.Name, name}] = set.Counters[name].Value
			}
		}
	}
	if len(left) == 0 {
		return
	}
	users := make(map[counter][]*resourcev1.ResourceClaim)
	each := func(v *Device, do func(counter, resource.Quantity)) {
		for _, use := range v.ConsumesCounters {
			for _, name := range slices.Sorted(maps.Keys(use.Counters)) {
				do(counter{v.driver + "/" + v.pool, use.CounterSet, name}, use.Counters[name].Value)
			}
		}
	}
	for _, v := range d.All {
		if holders := v.Holders(); len(holders) > 0 {
			each(v, func(k counter, amount resource.Quantity) {
				q := left[k].DeepCopy()
				q.Sub(amount)
				left[k], users[k] = q, append(users[k], holders...)
			})
		}
	}
	for _, v := range d.All {
		if len(v.Holders()) > 0 {
			continue
		}
		each(v, func(k counter, amount resource.Quantity) {
			if q := left[k]; amount.Cmp(q) <= 0 {
				return
			}
			for _, claim := range users[k] {
				if !slices.Contains(v.beside, claim) {
					v.beside = append(v.beside, claim)
				}
			}
		})
	}
}

// TaintRules are the rules by which one of the devices has a taint.
func TaintRules(f *facts.Facts, devices ...*Device) (out []facts.Object) {
	for _, r := range f.DeviceTaintRules {
		if slices.ContainsFunc(devices, func(v *Device) bool { return convert.TaintsDevice(r, v.Slice, v.Name) }) {
			out = append(out, r)
		}
	}
	return out
}

// reach are the devices that a pod on the node could have.
func (d *Devices) reach(n *corev1.Node) []*Device {
	out := slices.Clone(d.onNode[n.Name])
	for _, v := range d.elsewhere {
		name, all, selector := "", ptr.Deref(v.Slice.Spec.AllNodes, false), v.Slice.Spec.NodeSelector
		if ptr.Deref(v.Slice.Spec.PerDeviceNodeSelection, false) {
			name, all, selector = ptr.Deref(v.NodeName, ""), ptr.Deref(v.AllNodes, false), v.NodeSelector
		}
		if all || name == n.Name || selector != nil && Selects(selector, n) {
			out = append(out, v)
		}
	}
	return out
}

// Selects says whether the selector matches the node.
func Selects(s *corev1.NodeSelector, n *corev1.Node) bool {
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

func (c *PodClaim) key() string { return c.Namespace + "/" + c.ResourceClaim.Name }

// wanted is the claim without devices, as an allocator is asked for it.
func (c *PodClaim) wanted() *resourcev1.ResourceClaim {
	made := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: resourcev1.ResourceClaimSpec{Devices: defaulted(c.spec)}}
	if c.ResourceClaim != nil {
		made.Namespace = c.Namespace
	}
	return made
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
	capacity    *resourcev1.CapacityRequirements
}

// deviceAsks are the requests of a claim; each is a list of alternatives, the best first.
func deviceAsks(spec *resourcev1.DeviceClaim) [][]DeviceAsk {
	var out [][]DeviceAsk
	for _, r := range spec.Requests {
		if x := r.Exactly; x != nil {
			out = append(out, []DeviceAsk{{r.Name, x.DeviceClassName, x.Selectors, x.AllocationMode == resourcev1.DeviceAllocationModeAll, max(1, int(x.Count)), ptr.Deref(x.AdminAccess, false), x.Tolerations, x.Capacity}})
			continue
		}
		var any []DeviceAsk
		for _, x := range r.FirstAvailable {
			any = append(any, DeviceAsk{r.Name + "/" + x.Name, x.DeviceClassName, x.Selectors, x.AllocationMode == resourcev1.DeviceAllocationModeAll, max(1, int(x.Count)), false, x.Tolerations, x.Capacity})
		}
		out = append(out, any)
	}
	return out
}

// InClass says whether the device is of the class, free or not. A class that does not exist has none.
func (d *Devices) InClass(v *Device, class string) bool {
	c := Named(d.f.DeviceClasses, "", class)
	return c != nil && Selected(d.f, v, c.Spec.Selectors) == nil
}

// Suits says whether the device is one that is asked for, free or not.
func (d *Devices) Suits(v *Device, ask *DeviceAsk) bool {
	return d.InClass(v, ask.Class) && Selected(d.f, v, ask.Selectors) == nil && Repelling(v, ask).Key == ""
}

// Repelling is the device's first taint that the request does not tolerate; without a key where there is none.
func Repelling(v *Device, ask *DeviceAsk) resourcev1.DeviceTaint {
	for _, t := range v.Taints {
		if t.Effect != resourcev1.DeviceTaintEffectNone && !slices.ContainsFunc(ask.tolerations, func(o resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(o, t) }) {
			return t
		}
	}
	return resourcev1.DeviceTaint{}
}

// Tolerations are those of the request.
func (a *DeviceAsk) Tolerations() []resourcev1.DeviceToleration { return a.tolerations }

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

// refuse says why the claims cannot all be met on the node, "" if they can, or if that is not known. Counting is enough for
// most nodes; what is left is for Kubernetes' allocator, which knows constraints, counters and shares.
func (d *Devices) refuse(n *corev1.Node, claims []PodClaim) string {
	var wanted []*resourcev1.ResourceClaim
	reach := d.reach(n)
	for i := range claims {
		c := &claims[i]
		if c.ResourceClaim != nil && c.Status.Allocation != nil {
			if s := c.Status.Allocation.NodeSelector; s != nil && !Selects(s, n) {
				return fmt.Sprintf("claim %s has its devices elsewhere", c.Name)
			}
			continue
		}
		if c.ResourceClaim != nil && d.at[c.key()] != "" {
			if at := d.at[c.key()]; at != n.Name && len(d.elsewhere) == 0 {
				return fmt.Sprintf("claim %s has its devices elsewhere", c.Name)
			}
			continue
		}
		for j, any := range deviceAsks(c.spec) {
			if len(any) == 0 {
				return fmt.Sprintf("claim %s asks for nothing in request %d", c.Name, j)
			}
			if reason := d.shortage(reach, c, any); reason != "" {
				return reason
			}
		}
		wanted = append(wanted, c.wanted())
	}
	if len(wanted) == 0 || d.allocates == nil {
		return ""
	}
	promised := d.promised[n.Name]
	ok, known := d.had(n, slices.Concat(promised, wanted))
	if ok || !known && len(promised) == 0 { // beside others, what cannot be found out in time is not had
		return ""
	}
	if len(promised) > 0 {
		if ok, known := d.had(n, wanted); ok || !known {
			return fmt.Sprintf("pods that are placed before it have the devices that claim %s asks for", wanted[0].Name)
		}
	}
	if text := d.failing(reach, claims) + d.consumed(reach, claims); text != "" {
		return text
	}
	return "the devices that its claims ask for cannot be had together there" + constrained(wanted)
}

// Together is how many of the pods, in their order, can have what they claim on the node beside one another; all of them where that is not known.
func Together(f *facts.Facts, n *corev1.Node, pods []*corev1.Pod) int {
	d := OffersOf(f)
	if d.allocates == nil {
		return len(pods)
	}
	wanted, upTo := slices.Clone(d.promised[n.Name]), make([]int, len(pods))
	shared := make(map[string]bool)
	for i, p := range pods {
		claims := ClaimsOf(f, p)
		for k := range claims {
			c := &claims[k]
			if c.ResourceClaim != nil {
				if c.Status.Allocation != nil || d.at[c.key()] != "" || shared[c.key()] {
					continue
				}
				shared[c.key()] = true
			}
			wanted = append(wanted, c.wanted())
		}
		upTo[i] = len(wanted)
	}
	return sort.Search(len(pods), func(i int) bool { // the first pod with whom it is too much
		ok, known := d.had(n, wanted[:upTo[i]])
		return !ok && (known || i > 0)
	})
}

// failing names the first selector that fails for a device, and so keeps the claim from all of the node; "" for none.
func (d *Devices) failing(reach []*Device, claims []PodClaim) string {
	for _, a := range OpenAsks(d.f, claims) {
		class := Named(d.f.DeviceClasses, "", a.Class)
		for _, v := range reach {
			if class == nil {
				continue
			}
			not := Selected(d.f, v, class.Spec.Selectors)
			if not == nil {
				not = Selected(d.f, v, a.Selectors)
			}
			if not != nil && not.Err != nil {
				return fmt.Sprintf("selector %q fails for device %s: %v", not.expression, v.ID(), not.Err)
			}
		}
	}
	return ""
}

// consumed says of which capacity a shared device, which would do otherwise, has less left than is asked for, and who has it; "" for none.
func (d *Devices) consumed(reach []*Device, claims []PodClaim) string {
	for _, a := range OpenAsks(d.f, claims) {
		for _, v := range reach {
			if !d.Suits(v, &a.DeviceAsk) {
				continue
			}
			if text := v.Lacks(&a.DeviceAsk); text != "" {
				return fmt.Sprintf("claim %s asks for %s", a.Claim.Name, text)
			}
		}
	}
	return ""
}

// Beside are the claims that keep the device from being had without having it: they have devices that draw on the same counters.
func (v *Device) Beside() []*resourcev1.ResourceClaim { return v.beside }

// Holders are the claims that have the device, or shares of it.
func (v *Device) Holders() (out []*resourcev1.ResourceClaim) {
	if v.Holder != nil {
		out = append(out, v.Holder)
	}
	for _, s := range v.shares {
		if !slices.Contains(out, s.claim) {
			out = append(out, s.claim)
		}
	}
	return out
}

// Lacks says of which capacity the device has less left than the request asks for, and who consumes it; "" for none.
func (v *Device) Lacks(ask *DeviceAsk) string {
	if ask.capacity == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(ask.capacity.Requests)) {
		if text := v.lacks(name, ask.capacity.Requests[name]); text != "" {
			return text
		}
	}
	return ""
}

// lacks says how much of the capacity is consumed, if less than the amount is left; "" where that is left.
func (v *Device) lacks(name resourcev1.QualifiedName, amount resource.Quantity) string {
	all := v.Capacity[name].Value
	left := all.DeepCopy()
	var by []string
	for _, s := range v.shares {
		q := s.consumed[name]
		left.Sub(q)
		by = append(by, fmt.Sprintf("claim %s consumes %s", s.claim.Name, q.String()))
	}
	if amount.Cmp(left) <= 0 {
		return ""
	}
	text := fmt.Sprintf("%s of %s, and device %s has %s of %s free", amount.String(), name, v.ID(), left.String(), all.String())
	if len(by) > mostShares {
		by = append(by[:mostShares], fmt.Sprintf("%d more", len(by)-mostShares))
	}
	if len(by) > 0 {
		text += ": " + strings.Join(by, ", ")
	}
	return text
}

// mostShares is how many claims are named that have shares of a device.
const mostShares = 4

// constrained names what the claims ask of their devices together.
func constrained(claims []*resourcev1.ResourceClaim) string {
	var out []string
	for _, c := range claims {
		for _, k := range c.Spec.Devices.Constraints {
			if a := k.MatchAttribute; a != nil {
				out = append(out, fmt.Sprintf("claim %s wants devices of one %s", c.Name, *a))
			}
			if a := k.DistinctAttribute; a != nil {
				out = append(out, fmt.Sprintf("claim %s wants devices that differ in %s", c.Name, *a))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// TooMany is the first request of the pod's claims that asks for more devices than any node has, free or not, and the most
// that a node has; none where a node has so many, or none has any.
func (d *Devices) TooMany(asks []AskAt) (ask *AskAt, most int, at string) {
	for i := range asks {
		a := &asks[i]
		if a.All || !d.Alternatives(asks, a).Is(a, TooFew) {
			continue
		}
		if most, at := d.most(&a.DeviceAsk); 0 < most && most < a.Count {
			return a, most, at
		}
	}
	return nil, 0, ""
}

// defaulted is the claim as the API server would have it: manifests, and edits that are tried, may leave things out.
func defaulted(spec *resourcev1.DeviceClaim) resourcev1.DeviceClaim {
	out := spec.DeepCopy()
	fill := func(mode *resourcev1.DeviceAllocationMode, count *int64) {
		if *mode == "" {
			*mode = resourcev1.DeviceAllocationModeExactCount
		}
		if *mode == resourcev1.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
	}
	for i := range out.Requests {
		r := &out.Requests[i]
		if r.Exactly != nil {
			fill(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			fill(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
	return *out
}

// shortage says of which request there is too little on the node whatever else is asked for, "" if there may be enough.
func (d *Devices) shortage(reach []*Device, c *PodClaim, any []DeviceAsk) string {
	var out []string
	for i := range any {
		ask, match, free := &any[i], 0, 0
		for _, v := range reach {
			if d.Suits(v, ask) {
				match++
				if v.Holder == nil || ask.admin || ptr.Deref(v.AllowMultipleAllocations, false) {
					free++
				}
			}
		}
		if free >= ask.Count && (!ask.All || free == match) {
			return ""
		}
		out = append(out, fmt.Sprintf("for %d of class %s, and %d of %s there %s free", ask.Count, ask.Class, free, wording.Number(match, "such device"), wording.InNumber(free, "is", "are")))
	}
	return fmt.Sprintf("claim %s asks %s", c.Name, strings.Join(out, ", or "))
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
