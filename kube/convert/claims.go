package convert

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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
	All         bool // of a node all devices are had for which the expressions are true, or none: one with a taint keeps the others from being had
}

// newSelection names the selection after its class, with a mark of all that it consists of.
func newSelection(class *resourcev1.DeviceClass, selectors []resourcev1.DeviceSelector, tolerations []resourcev1.DeviceToleration) Selection {
	s := Selection{Tolerations: tolerations}
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
	s.Name = fmt.Sprintf("%s#%x", class.Name, h.Sum(nil)[:6])
	return s
}

// ClassSelection is which devices are of the class, taints aside.
func ClassSelection(class *resourcev1.DeviceClass) Selection { return newSelection(class, nil, nil) }

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
	Selections []Selection // that requests name
	Missing    []string    // what has to be there before anything can be had
	Unknown    why.Feature // what is asked for and not decided; "": nothing
}

// Add takes in what a claim that has no devices yet, and that the pod calls by the name, asks for. class finds device classes,
// nil for none.
func (a *Asked) Add(called string, c *resourcev1.ResourceClaim, class func(string) *resourcev1.DeviceClass) {
	spec := &c.Spec.Devices
	first := len(a.Claims.Requests)
	parts := make([][]string, 0, len(spec.Requests)) // names of the options of each request, as constraints name them
	for i := range spec.Requests {
		r := &spec.Requests[i]
		out := engine.DeviceRequest{Name: called + "/" + r.Name}
		var names []string
		if e := r.Exactly; e != nil {
			out.Options = append(out.Options, a.option(called, e.DeviceClassName, e.Selectors, e.Tolerations, e.AllocationMode, e.Count, e.Capacity, class))
			out.Options[0].Admin = e.AdminAccess != nil && *e.AdminAccess
			names = append(names, r.Name)
		}
		for k := range r.FirstAvailable {
			e := &r.FirstAvailable[k]
			out.Options = append(out.Options, a.option(called, e.DeviceClassName, e.Selectors, e.Tolerations, e.AllocationMode, e.Count, e.Capacity, class))
			names = append(names, r.Name+"/"+e.Name)
		}
		if len(out.Options) == 0 {
			a.Unknown = why.Claims // a kind of request that is not known
			continue
		}
		a.Claims.Requests, parts = append(a.Claims.Requests, out), append(parts, names)
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
		number := len(a.Claims.Match)
		a.Claims.Match = append(a.Claims.Match, rule)
		for r, names := range parts {
			for o, name := range names {
				whole, _, _ := strings.Cut(name, "/")
				if len(k.Requests) == 0 || slices.Contains(k.Requests, name) || slices.Contains(k.Requests, whole) {
					opt := &a.Claims.Requests[first+r].Options[o]
					opt.Match = append(opt.Match, number)
				}
			}
		}
	}
}

func (a *Asked) option(claim, className string, selectors []resourcev1.DeviceSelector, tolerations []resourcev1.DeviceToleration, mode resourcev1.DeviceAllocationMode, count int64, capacity *resourcev1.CapacityRequirements, class func(string) *resourcev1.DeviceClass) engine.DeviceOption {
	of := class(className)
	if of == nil {
		a.Missing = append(a.Missing, fmt.Sprintf("device class %s, which claim %s names, does not exist", className, claim))
		return engine.DeviceOption{Selection: className, Count: 1}
	}
	if capacity != nil && len(capacity.Requests) > 0 {
		a.Unknown = why.DeviceCapacity
	}
	s := newSelection(of, selectors, tolerations)
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

// Holds are the devices that the claim has to itself, by DeviceID.
func Holds(c *resourcev1.ResourceClaim) []string {
	if c.Status.Allocation == nil {
		return nil
	}
	var out []string
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, DeviceID(r.Driver, r.Pool, r.Device))
		}
	}
	return out
}

// Offered are the devices of one node's slices, and what they share.
type Offered struct {
	Devices  []OfferedDevice
	Counters []engine.Counter
}

// OfferedDevice is a device and whose it is.
type OfferedDevice struct {
	ID     string
	Driver string
	Pool   string // with its driver
	Reach  Reach
	*resourcev1.Device
	draws []engine.Draw
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

// ReadSlices reads the slices of one node: of each pool the newest generation, if all of it is there.
func ReadSlices(all []*resourcev1.ResourceSlice) Offered {
	type pool struct {
		generation int64
		slices     []*resourcev1.ResourceSlice
	}
	pools := make(map[string]*pool)
	var names []string
	for _, s := range all {
		key := s.Spec.Driver + "/" + s.Spec.Pool.Name
		p := pools[key]
		if p == nil {
			p = &pool{generation: -1}
			pools[key], names = p, append(names, key)
		}
		if s.Spec.Pool.Generation > p.generation {
			p.generation, p.slices = s.Spec.Pool.Generation, nil
		}
		if s.Spec.Pool.Generation == p.generation {
			p.slices = append(p.slices, s)
		}
	}
	slices.Sort(names)
	var out Offered
	for _, key := range names {
		p := pools[key]
		if int64(len(p.slices)) != p.slices[0].Spec.Pool.ResourceSliceCount {
			continue
		}
		slices.SortFunc(p.slices, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
		for _, s := range p.slices {
			out.add(key, s)
		}
	}
	out.dropStray()
	if len(out.Devices) > engine.MaxOffers {
		out.Devices = out.Devices[:engine.MaxOffers]
	}
	return out
}

// dropStray takes out devices that draw on a counter that there is not, and what is there twice: nobody could have them.
func (o *Offered) dropStray() {
	known := make(map[string]bool, len(o.Counters))
	o.Counters = slices.DeleteFunc(o.Counters, func(c engine.Counter) bool {
		twice := known[c.Name]
		known[c.Name] = true
		return twice
	})
	seen := make(map[string]bool, len(o.Devices))
	o.Devices = slices.DeleteFunc(o.Devices, func(d OfferedDevice) bool {
		twice := seen[d.ID]
		seen[d.ID] = true
		return twice || slices.ContainsFunc(d.draws, func(x engine.Draw) bool { return !known[x.Counter] })
	})
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
		out := OfferedDevice{ID: pool + "/" + d.Name, Driver: s.Spec.Driver, Pool: pool, Reach: reachOf(s, d), Device: d}
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

// Undecided says whether some of the devices are not decided about.
func (o *Offered) Undecided() bool {
	return slices.ContainsFunc(o.Devices, func(d OfferedDevice) bool { return d.Undecided() != "" })
}

// Undecided is what keeps the device from being decided about: it is held by several claims at a time; "": nothing.
func (d *OfferedDevice) Undecided() why.Feature {
	if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
		return why.DeviceCapacity
	}
	return ""
}

// WholeGPU says whether the device is a GPU, and not a part of one.
func (d *OfferedDevice) WholeGPU() bool {
	if !strings.HasPrefix(d.Driver, "gpu.") {
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
	case !strings.HasPrefix(d.Driver, "gpu.") || text("type") != "mig":
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

// Attribute is the value of an attribute by its full name, as text, "" where the device has none. Lists have no text.
func (d *OfferedDevice) Attribute(name string) string {
	a, ok := d.Attributes[resourcev1.QualifiedName(name)]
	if domain, rest, qualified := strings.Cut(name, "/"); !ok && qualified && domain == d.Driver {
		a = d.Attributes[resourcev1.QualifiedName(rest)]
	}
	switch {
	case a.StringValue != nil:
		return "s" + *a.StringValue
	case a.IntValue != nil:
		return fmt.Sprint("i", *a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint("b", *a.BoolValue)
	case a.VersionValue != nil:
		return "v" + *a.VersionValue
	}
	return ""
}

// Offer is the device as the engine sees it: which selections it matches, sorted, and the attributes that matter to somebody.
func (d *OfferedDevice) Offer(selections, attributes []string) engine.Offer {
	out := engine.Offer{ID: d.ID, Selections: selections, Draws: d.draws}
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
