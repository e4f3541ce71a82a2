package convert

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// MaxResourceClaims is how many resource claims of a pod are looked at.
const MaxResourceClaims = 16

// PodClaim is a resource claim of a pod.
type PodClaim struct {
	Name string // in the pod's spec: pods that one template made are alike in it
	Key  string // of the object
}

// ResourceClaims are the pod's resource claims, those that others made for it included. missing says which are not there yet.
func ResourceClaims(p *corev1.Pod) (claims []PodClaim, missing []string) {
	for i := range p.Spec.ResourceClaims {
		c := &p.Spec.ResourceClaims[i]
		name, _, err := resourceclaim.Name(p, c)
		switch {
		case errors.Is(err, resourceclaim.ErrClaimNotFound):
			missing = append(missing, fmt.Sprintf("resource claim %s is not made yet", clipped(c.Name, MaxQuoteBytes)))
		case err != nil:
			missing = append(missing, clipped(err.Error(), MaxQuoteBytes))
		case name != nil:
			claims = append(claims, PodClaim{c.Name, p.Namespace + "/" + *name})
		}
	}
	return claims, missing
}

// Selection is which devices a request may have: those for which all expressions are true and whose taints are tolerated.
type Selection struct {
	Name        string // equal for equal selections
	Expressions []string
	Tolerations []resourcev1.DeviceToleration
	Capacity    map[resourcev1.QualifiedName]resource.Quantity // that is requested of each device
	All         bool                                           // of a node all devices are had for which the expressions are true, or none: one with a taint keeps the others from being had
}

// newSelection names the selection after its class, with a mark of all that it consists of.
func newSelection(class *resourcev1.DeviceClass, selectors []resourcev1.DeviceSelector, tolerations []resourcev1.DeviceToleration, capacity *resourcev1.CapacityRequirements) Selection {
	s := Selection{Tolerations: tolerations}
	if capacity != nil {
		s.Capacity = capacity.Requests
	}
	h := sha256.New()
	for _, list := range [][]resourcev1.DeviceSelector{class.Spec.Selectors, selectors} {
		for _, d := range list {
			text := "false" // a kind of selector that is not known selects nothing
			if d.CEL != nil {
				text = d.CEL.Expression
			}
			s.Expressions = append(s.Expressions, text)
			fmt.Fprintf(h, "%d %s", len(text), text)
		}
	}
	for _, t := range tolerations {
		fmt.Fprintf(h, " %q %q %q %q", t.Key, t.Operator, t.Value, t.Effect)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Capacity)) {
		q := s.Capacity[name]
		fmt.Fprintf(h, " %q=%s", name, q.String())
	}
	s.Name = fmt.Sprintf("%s#%x", class.Name, h.Sum(nil)[:6])
	return s
}

// ClassSelection is which devices are of the class, taints aside.
func ClassSelection(class *resourcev1.DeviceClass) Selection {
	return newSelection(class, nil, nil, nil)
}

// Tolerates says whether the request may have a device with these taints.
func (s *Selection) Tolerates(taints []resourcev1.DeviceTaint) bool {
	return !slices.ContainsFunc(taints, func(t resourcev1.DeviceTaint) bool {
		return (t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute) &&
			!slices.ContainsFunc(s.Tolerations, func(o resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(o, t) })
	})
}

// Asked is what claims ask for, all together.
type Asked struct {
	Claims     engine.Claims
	Selections []Selection       // that requests name
	Derived    map[string]string // expressions of attributes that requests derive, by the name that options have for them
	Missing    []string          // what has to be there before anything can be had
	Unknown    why.Feature       // what is asked for and not decided; "": nothing
	claims     int
}

// Add takes in what a claim that has no devices yet, and that the pod calls by the name, asks for. class finds device classes,
// nil for none.
func (a *Asked) Add(called string, c *resourcev1.ResourceClaim, class func(string) *resourcev1.DeviceClass) {
	spec := &c.Spec.Devices
	first, number := len(a.Claims.Requests), a.claims
	a.claims++
	parts := make([][]string, 0, len(spec.Requests)) // names of the options of each request, as constraints name them
	var derived [][][]resourcev1.DeviceDerivedAttribute
	for i := range spec.Requests {
		r := &spec.Requests[i]
		out := engine.DeviceRequest{Name: called + "/" + r.Name, Claim: number}
		var names []string
		var derives [][]resourcev1.DeviceDerivedAttribute
		if e := r.Exactly; e != nil {
			out.Options = append(out.Options, a.option(called, e.DeviceClassName, e.Selectors, e.Tolerations, e.AllocationMode, e.Count, e.Capacity, class))
			out.Options[0].Admin = e.AdminAccess != nil && *e.AdminAccess
			names, derives = append(names, r.Name), append(derives, e.DerivedAttributes)
		}
		for k := range r.FirstAvailable {
			e := &r.FirstAvailable[k]
			out.Options = append(out.Options, a.option(called, e.DeviceClassName, e.Selectors, e.Tolerations, e.AllocationMode, e.Count, e.Capacity, class))
			names, derives = append(names, r.Name+"/"+e.Name), append(derives, e.DerivedAttributes)
		}
		if len(out.Options) == 0 {
			a.Unknown = why.Claims // a kind of request that is not known
			continue
		}
		a.Claims.Requests, parts, derived = append(a.Claims.Requests, out), append(parts, names), append(derived, derives)
	}
	for i := range spec.Constraints {
		k := &spec.Constraints[i]
		rule := engine.DeviceAgreement{}
		switch {
		case k.MatchAttribute != nil:
			rule.Attribute = string(*k.MatchAttribute)
		case k.DistinctAttribute != nil:
			rule = engine.DeviceAgreement{Attribute: string(*k.DistinctAttribute), Distinct: true}
		default:
			a.Unknown = why.Claims // a kind of constraint that is not known
			continue
		}
		agreement := len(a.Claims.Match)
		a.Claims.Match = append(a.Claims.Match, rule)
		for r, names := range parts {
			for o, name := range names {
				whole, _, _ := strings.Cut(name, "/")
				if len(k.Requests) == 0 || slices.Contains(k.Requests, name) || slices.Contains(k.Requests, whole) {
					opt := &a.Claims.Requests[first+r].Options[o]
					opt.Match = append(opt.Match, agreement)
					a.derive(opt, rule.Attribute, derived[r][o])
				}
			}
		}
	}
}

// derive has the option's last agreement go by an attribute that the request derives, if that is what it is about.
func (a *Asked) derive(opt *engine.DeviceOption, attribute string, derived []resourcev1.DeviceDerivedAttribute) {
	i := slices.IndexFunc(derived, func(d resourcev1.DeviceDerivedAttribute) bool { return string(d.Name) == attribute })
	if i < 0 && opt.As == nil {
		return
	}
	for len(opt.As) < len(opt.Match) {
		opt.As = append(opt.As, "")
	}
	if i >= 0 {
		if a.Derived == nil {
			a.Derived = make(map[string]string)
		}
		name := fmt.Sprintf("%s#%x", attribute, sha256.Sum256([]byte(derived[i].Expression)))[:len(attribute)+13]
		a.Derived[name], opt.As[len(opt.As)-1] = derived[i].Expression, name
	}
}

func (a *Asked) option(claim, className string, selectors []resourcev1.DeviceSelector, tolerations []resourcev1.DeviceToleration, mode resourcev1.DeviceAllocationMode, count int64, capacity *resourcev1.CapacityRequirements, class func(string) *resourcev1.DeviceClass) engine.DeviceOption {
	of := class(className)
	if of == nil {
		a.Missing = append(a.Missing, fmt.Sprintf("device class %s, which claim %s names, does not exist", className, claim))
		return engine.DeviceOption{Selection: className, Count: 1}
	}
	s := newSelection(of, selectors, tolerations, capacity)
	if mode == resourcev1.DeviceAllocationModeAll {
		s.Name, s.All = s.Name+"*", true
	}
	a.Selections = append(a.Selections, s)
	out := engine.DeviceOption{Selection: s.Name}
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		out.All = true
	case resourcev1.DeviceAllocationModeExactCount, "":
		out.Count = int(max(count, 1))
	default:
		a.Unknown = why.Claims
	}
	return out
}

// DeviceID names a device in the cluster.
func DeviceID(driver, pool, device string) string { return driver + "/" + pool + "/" + device }

// Holds are the devices that the claim has to itself, or has shares of, by DeviceID.
func Holds(c *resourcev1.ResourceClaim) []string {
	var out []string
	for _, r := range Held(c) {
		out = append(out, DeviceID(r.Driver, r.Pool, r.Device))
	}
	return out
}

// Held is what the claim has, those devices aside that it looks on at.
func Held(c *resourcev1.ResourceClaim) (out []*resourcev1.DeviceRequestAllocationResult) {
	if c.Status.Allocation == nil {
		return nil
	}
	for i := range c.Status.Allocation.Devices.Results {
		if r := &c.Status.Allocation.Devices.Results[i]; r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, r)
		}
	}
	return out
}

// SkipsOperations says whether the claim has devices for which operations on the node are left out.
func SkipsOperations(c *resourcev1.ResourceClaim) bool {
	return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.SkipNodeOperations) > 0 })
}

// MaySkipOperations says whether the node declares that operations may be left out there.
func MaySkipOperations(n *corev1.Node) bool {
	return n != nil && slices.Contains(n.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
}

// Offered are the devices of one node's slices, and what they share.
type Offered struct {
	Devices  []OfferedDevice
	Counters []engine.Counter
	// Unsure is who reaches devices of pools of which not all slices are there, or that contradict themselves: nobody gets all devices of
	// a node with such.
	Unsure []Reach
	// Invalid are pools that contradict themselves, which nobody gets devices of.
	Invalid []InvalidPool
}

// InvalidPool is a pool that contradicts itself.
type InvalidPool struct {
	Name  string  // with its driver
	Why   string  // "device gpu-0 is there twice"
	Reach []Reach // who would reach devices of it
}

// OfferedDevice is a device and whose it is.
type OfferedDevice struct {
	ID     string
	Driver string
	Pool   string // with its driver
	Slice  string
	Reach  Reach
	// Skips is that operations on the node are left out for it (DRAOptionalNodeOperations), which the node must declare.
	Skips bool
	*resourcev1.Device
	draws  []engine.Draw
	groups []engine.SetGroups
}

// Reach is which nodes reach a device: one, all, or those that a selector selects. Where it says nothing it is none.
type Reach struct {
	Node     string
	All      bool
	Selector *corev1.NodeSelector
}

// String is equal for reaches that say the same.
func (r Reach) String() string {
	switch {
	case r.Node != "":
		return "node " + r.Node
	case r.All:
		return "all"
	case r.Selector != nil:
		return fmt.Sprintf("selector %x", sha256.Sum256([]byte(r.Selector.String())))[:32]
	}
	return "none"
}

// reachOf is which nodes reach the device: its slice says so or, where that leaves it to devices, the device.
func reachOf(s *resourcev1.ResourceSlice, d *resourcev1.Device) Reach {
	if s.Spec.PerDeviceNodeSelection != nil && *s.Spec.PerDeviceNodeSelection {
		return Reach{Node: deref(d.NodeName), All: d.AllNodes != nil && *d.AllNodes, Selector: d.NodeSelector}
	}
	return Reach{Node: deref(s.Spec.NodeName), All: s.Spec.AllNodes != nil && *s.Spec.AllNodes, Selector: s.Spec.NodeSelector}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Draws says whether the device draws on counters.
func (d *OfferedDevice) Draws() bool { return len(d.draws) > 0 }

// PoolOfCounter is the pool, with its driver, that a counter is of: no name in a pool's name has a slash but those of the pool itself.
func PoolOfCounter(name string) string {
	for range 2 {
		name = name[:max(0, strings.LastIndexByte(name, '/'))]
	}
	return name
}

// Tainted is the slice with the taints that rules put on its devices; the slice itself where they put none.
func Tainted(s *resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) *resourcev1.ResourceSlice {
	out := s
	for _, r := range rules {
		for i := range s.Spec.Devices {
			if !TaintsDevice(r, s, s.Spec.Devices[i].Name) {
				continue
			}
			if out == s {
				out = s.DeepCopy()
			}
			out.Spec.Devices[i].Taints = append(out.Spec.Devices[i].Taints, r.Spec.Taint)
		}
	}
	return out
}

// TaintsDevice says whether the rule taints the device of the slice, as upstream selects (k8s.io/dynamic-resource-allocation v0.37.1,
// resourceslice/tracker): a rule without a selector taints none, and an empty selector all.
func TaintsDevice(r *resourcev1.DeviceTaintRule, s *resourcev1.ResourceSlice, device string) bool {
	by := r.Spec.DeviceSelector
	if by == nil || r.DeletionTimestamp != nil {
		return false
	}
	is := func(want *string, have string) bool { return want == nil || *want == have }
	return is(by.Driver, s.Spec.Driver) && is(by.Pool, s.Spec.Pool.Name) && is(by.Device, device)
}

// ReadSlices reads the slices of one node: of each pool the newest generation, if all of it is there and makes sense, as upstream decides
// (k8s.io/dynamic-resource-allocation v0.37.1, GatherPools).
func ReadSlices(all []*resourcev1.ResourceSlice) Offered {
	type pool struct {
		driver, name string
		generation   int64
		slices       []*resourcev1.ResourceSlice
	}
	pools := make(map[string]*pool)
	var list []*pool
	for _, s := range all {
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		p := pools[key]
		if p == nil {
			p = &pool{driver: s.Spec.Driver, name: s.Spec.Pool.Name, generation: s.Spec.Pool.Generation}
			pools[key], list = p, append(list, p)
		}
		if s.Spec.Pool.Generation > p.generation {
			p.generation, p.slices = s.Spec.Pool.Generation, nil
		}
		if s.Spec.Pool.Generation == p.generation {
			p.slices = append(p.slices, s)
		}
	}
	slices.SortFunc(list, func(a, b *pool) int {
		return cmp.Or(strings.Compare(a.driver, b.driver), strings.Compare(a.name, b.name))
	})
	var out Offered
	for _, p := range list {
		slices.SortFunc(p.slices, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
		var one Offered
		for _, s := range p.slices {
			one.add(p.driver+"/"+p.name, s)
		}
		whole, fault := int64(len(p.slices)) == p.slices[0].Spec.Pool.ResourceSliceCount, one.contradiction()
		if !whole || fault != "" {
			from := len(out.Unsure)
			for _, s := range p.slices {
				out.unsure(s)
			}
			if whole {
				out.Invalid = append(out.Invalid, InvalidPool{p.driver + "/" + p.name, fault, out.Unsure[from:]})
			}
			continue
		}
		one.group()
		out.Devices, out.Counters = append(out.Devices, one.Devices...), append(out.Counters, one.Counters...)
	}
	if len(out.Devices) > engine.MaxOffers {
		out.Devices = out.Devices[:engine.MaxOffers]
	}
	return out
}

// contradiction is what of a pool makes no sense, "" for nothing: a device or a counter that is there twice, or a device that draws on a counter
// which is not there.
func (o *Offered) contradiction() string {
	known, seen := make(map[string]bool, len(o.Counters)), make(map[string]bool, len(o.Devices))
	for _, c := range o.Counters {
		if known[c.Name] {
			return fmt.Sprintf("counter %s is there twice", c.Name)
		}
		known[c.Name] = true
	}
	for i := range o.Devices {
		d := &o.Devices[i]
		if seen[d.ID] {
			return fmt.Sprintf("device %s is there twice", d.Name)
		}
		seen[d.ID] = true
		for _, x := range d.draws {
			if !known[x.Counter] {
				return fmt.Sprintf("device %s draws on counter %s, which is not there", d.Name, x.Counter)
			}
		}
	}
	return ""
}

// group finds which groups the devices of a pool are of in the sets of counters that they draw on, of sets in which any is of one
// (DRADeviceCompatibilityGroups).
func (o *Offered) group() {
	grouped := make(map[string]bool)
	for i := range o.Devices {
		for _, use := range o.Devices[i].ConsumesCounters {
			grouped[use.CounterSet] = grouped[use.CounterSet] || len(use.CompatibilityGroups) > 0
		}
	}
	for i := range o.Devices {
		d := &o.Devices[i]
		for _, use := range d.ConsumesCounters {
			if grouped[use.CounterSet] {
				d.groups = append(d.groups, engine.SetGroups{Set: d.Pool + "/" + use.CounterSet, Groups: slices.Sorted(slices.Values(use.CompatibilityGroups))})
			}
		}
		slices.SortFunc(d.groups, func(a, b engine.SetGroups) int { return strings.Compare(a.Set, b.Set) })
		d.groups = slices.CompactFunc(d.groups, func(a, b engine.SetGroups) bool { return a.Set == b.Set })
	}
}

// unsure notes who reaches the slice.
func (o *Offered) unsure(s *resourcev1.ResourceSlice) {
	if s.Spec.PerDeviceNodeSelection == nil || !*s.Spec.PerDeviceNodeSelection {
		o.Unsure = append(o.Unsure, reachOf(s, nil))
		return
	}
	for i := range s.Spec.Devices {
		o.Unsure = append(o.Unsure, reachOf(s, &s.Spec.Devices[i]))
	}
}

func (o *Offered) add(pool string, s *resourcev1.ResourceSlice) {
	for i := range s.Spec.SharedCounters {
		set := &s.Spec.SharedCounters[i]
		for _, name := range slices.Sorted(maps.Keys(set.Counters)) {
			c := set.Counters[name]
			o.Counters = append(o.Counters, engine.Counter{Name: pool + "/" + set.Name + "/" + name, Amount: clampAmount(c.Value.Value())})
		}
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		out := OfferedDevice{ID: pool + "/" + d.Name, Driver: s.Spec.Driver, Pool: pool, Slice: s.Name, Reach: reachOf(s, d), Skips: len(s.Spec.SkipNodeOperations) > 0, Device: d}
		for k := range d.ConsumesCounters {
			use := &d.ConsumesCounters[k]
			for _, name := range slices.Sorted(maps.Keys(use.Counters)) {
				c := use.Counters[name]
				out.draws = append(out.draws, engine.Draw{Counter: pool + "/" + use.CounterSet + "/" + name, Amount: clampAmount(c.Value.Value())})
			}
		}
		o.Devices = append(o.Devices, out)
	}
}

func clampAmount(v int64) int64 { return max(0, min(v, engine.MaxAmount)) }

// WholeGPU says whether the device is a GPU, and not a part of one, and is had whole.
func (d *OfferedDevice) WholeGPU() bool { return d.isGPU() && !d.Shared() }

// OfGPUs says whether the driver offers GPUs, whatever the device is of them: a card, a part of one, or another way to have it. Drivers of
// network cards and of the channels between GPUs offer none, whoever made them.
func (d *OfferedDevice) OfGPUs() bool { return d.isGPU() || strings.HasPrefix(d.Driver, gpuDrivers) }

// gpuDrivers is how the names of drivers begin that offer GPUs: gpu.nvidia.com.
const gpuDrivers = "gpu."

func (d *OfferedDevice) isGPU() bool {
	if kind := d.Attributes["type"]; kind.StringValue != nil && *kind.StringValue == "hami-gpu" {
		return true // of HAMi's driver, whose name begins otherwise
	}
	if !strings.HasPrefix(d.Driver, gpuDrivers) {
		return false
	}
	kind, ok := d.Attributes["type"]
	return !ok || kind.StringValue != nil && *kind.StringValue == "gpu"
}

// OfGPU is what the device is of a GPU as queues count it, in thousandths: all of it, the part that an instance of MIG is, or, of
// devices that are no GPUs and parts that nobody describes, nothing.
func (d *OfferedDevice) OfGPU() int64 {
	text := func(name resourcev1.QualifiedName) string {
		if a := d.Attributes[name]; a.StringValue != nil {
			return *a.StringValue
		}
		return ""
	}
	switch {
	case d.WholeGPU():
		return engine.Whole
	case !strings.HasPrefix(d.Driver, gpuDrivers) || text("type") != "mig":
		return 0
	}
	p := migProfile.FindStringSubmatch(strings.ReplaceAll(text("profile"), "+", "."))
	if p == nil {
		return 0
	}
	s := engine.Slice{}
	s.Memory, s.Compute = cardNamed(strings.ReplaceAll(text("productName"), " ", "-"), 0).instance(count(p[1]), count(p[2]))
	return s.Charge("")
}

// Attribute is the value of an attribute by its full name, as text, "" where the device has none. Of a list it is all values, each once.
func (d *OfferedDevice) Attribute(name string) string {
	a, ok := d.Attributes[resourcev1.QualifiedName(name)]
	if domain, rest, qualified := strings.Cut(name, "/"); !ok && qualified && domain == d.Driver {
		a = d.Attributes[resourcev1.QualifiedName(rest)]
	}
	return AttributeText(&a)
}

// AttributeText is the value of an attribute as text, "" for none. Of a list it is all values, each once.
func AttributeText(a *resourcev1.DeviceAttribute) string {
	switch {
	case len(a.IntValues) > 0:
		return several("i", a.IntValues)
	case len(a.BoolValues) > 0:
		return several("b", a.BoolValues)
	case len(a.StringValues) > 0:
		return several("s", a.StringValues)
	case len(a.VersionValues) > 0:
		return several("v", a.VersionValues)
	case a.StringValue != nil:
		return several("s", []string{*a.StringValue})
	case a.IntValue != nil:
		return fmt.Sprint("i", *a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint("b", *a.BoolValue)
	case a.VersionValue != nil:
		return "v" + *a.VersionValue
	}
	return ""
}

// several joins the values of one type, sorted, each once.
func several[V any](mark string, values []V) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = mark + joinable.Replace(fmt.Sprint(v))
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), engine.Several)
}

// joinable has no text that joins values.
var joinable = strings.NewReplacer(`\`, `\\`, engine.Several, `\u001f`)

// Verdict is what a device is to a selection.
type Verdict struct {
	Matches bool
	Fails   bool // the selection cannot be evaluated for it
	Blocks  bool // it is one of all devices that the selection wants, and has a taint that is not tolerated
}

// For says what the device is to a selection. meant is what its expressions say.
func (d *OfferedDevice) For(s *Selection, meant bool, err error) Verdict {
	if err != nil || !meant {
		return Verdict{Fails: err != nil}
	}
	c := d.consumes(s.Capacity)
	if c.broken || !c.fits {
		return Verdict{Fails: c.broken}
	}
	tolerated := s.Tolerates(d.Taints)
	return Verdict{Matches: tolerated, Blocks: !tolerated && s.All}
}

// TakesOfNode says whether whoever has the device takes cpu, memory or the like of its node besides, which pods do not ask for
// (gate DRANodeAllocatableResources). Berth does not count that for pods that wait, and gives them no such device.
func (d *OfferedDevice) TakesOfNode() bool { return len(d.NodeAllocatableResources) > 0 }

// Use is what a share of the device draws for the selection.
func (d *OfferedDevice) Use(s *Selection) []engine.Draw { return d.drawn(d.consumes(s.Capacity).of) }

// Offer is the device as the engine sees it: which selections it matches, by name, those that fail for it, those of all devices that it keeps
// from being met, the attributes that matter to somebody, and derived ones with their values.
func (d *OfferedDevice) Offer(matches []Selection, fails, blocks, attributes []string, derived map[string]string) engine.Offer {
	out := engine.Offer{ID: d.ID, Draws: d.draws, Groups: d.groups, Fails: fails, Blocks: blocks}
	for i := range matches {
		out.Selections = append(out.Selections, matches[i].Name)
	}
	if d.Shared() {
		out.Shared, out.Capacity = true, d.capacity()
		for i := range matches {
			if draws := d.Use(&matches[i]); len(draws) > 0 {
				out.Uses = append(out.Uses, engine.Use{Selection: matches[i].Name, Draws: draws})
			}
		}
	}
	out.Attributes = derived
	for _, name := range attributes {
		if v := d.Attribute(name); v != "" {
			if out.Attributes == nil {
				out.Attributes = make(map[string]string)
			}
			out.Attributes[name] = v
		}
	}
	return out
}
