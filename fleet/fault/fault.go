// Package fault says what the Faults of a fleet do at a moment: which are active, which nodes and GPUs they hit, and what
// those show then.
//
// All of it follows from the objects, their creation times and the clock: there is no state, so a fleet that is killed and
// started again goes on where it was, and the same seed gives the same life. It writes nothing. Package fleet calls Plan when
// Faults or nodes change and at the moments that the answer names, and carries the effects to machines and pods.
package fault

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/gpu"
)

const (
	// most is how many faults count; those beyond it, in order of age, do nothing and say so.
	most = 1000
	// mostTargets is how many nodes a status names.
	mostTargets = 32
)

// Node is one that a fault may hit.
type Node struct {
	Name   string
	Pool   string
	Labels map[string]string
	GPUs   []gpu.Device
}

// Plan is what the faults do at one moment.
type Plan struct {
	Effects map[string]*Effects             // by node; a node that nothing hits has none
	Status  map[string]v1alpha1.FaultStatus // by fault
	Next    time.Time                       // when this changes without an event; zero: never
	// Launches are how launches fail now, oldest fault first.
	Launches []Launch
}

// Launch is what a provider answers to who asks for more machines of a pool than it has.
type Launch struct {
	Pool, Zone string // in all zones where Zone is ""
	Error      v1alpha1.LaunchError
	Available  int
}

// New says what the faults do to the nodes at now.
func New(faults []*v1alpha1.Fault, nodes []Node, c clock.Clock, now time.Time) Plan {
	p := Plan{Effects: map[string]*Effects{}, Status: map[string]v1alpha1.FaultStatus{}}
	faults, nodes = slices.Clone(faults), slices.Clone(nodes)
	slices.SortFunc(faults, func(a, b *v1alpha1.Fault) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	for i, f := range faults {
		if i >= most {
			p.Status[f.Name] = v1alpha1.FaultStatus{Phase: v1alpha1.FaultMissed, Message: fmt.Sprintf("there are more than %d faults", most)}
			continue
		}
		p.add(f, nodes, c, now)
	}
	return p
}

func (p *Plan) add(f *v1alpha1.Fault, nodes []Node, c clock.Clock, now time.Time) {
	o := occurrenceAt(f, c, now)
	status := v1alpha1.FaultStatus{Phase: o.phase, Times: o.times}
	if !o.next.IsZero() && (p.Next.IsZero() || o.next.Before(p.Next)) {
		p.Next = o.next
	}
	if !o.healed.IsZero() {
		status.HealedAt = &metav1.Time{Time: o.healed}
	}
	if o.phase == v1alpha1.FaultActive {
		status.ActiveSince = &metav1.Time{Time: o.since}
		if f.Spec.Type == v1alpha1.FaultLaunchFails {
			p.Launches = append(p.Launches, Launch{Pool: f.Spec.Pool, Zone: f.Spec.Zone, Error: f.Spec.Error, Available: int(deref(f.Spec.Available))})
			p.Status[f.Name] = status
			return
		}
		p.hit(f, o, nodes, c, now, &status)
	}
	p.Status[f.Name] = status
}

// hit adds the effects of an active fault to those of its targets.
func (p *Plan) hit(f *v1alpha1.Fault, o occurrence, nodes []Node, c clock.Clock, now time.Time, status *v1alpha1.FaultStatus) {
	targets := targetsOf(f, nodes)
	for _, n := range targets {
		at := hit{fault: f, node: n, since: o.since, lasted: c.Simulated(now.Sub(o.since)), gpus: gpusOf(f, n)}
		if aboutGPUs(f.Spec.Type) && len(at.gpus) == 0 {
			continue
		}
		e := p.Effects[n.Name]
		if e == nil {
			e = &Effects{}
			p.Effects[n.Name] = e
		}
		if next := e.add(at); next > 0 {
			if moment := now.Add(c.Wall(next)); p.Next.IsZero() || moment.Before(p.Next) {
				p.Next = moment
			}
		}
		if status.Hit++; len(status.Targets) < mostTargets {
			status.Targets = append(status.Targets, at.String())
		}
	}
	if status.Hit == 0 {
		status.Phase, status.ActiveSince = v1alpha1.FaultMissed, nil
		status.Message = missed(f, len(targets))
	}
}

func deref(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

func missed(f *v1alpha1.Fault, nodes int) string {
	s := &f.Spec
	switch {
	case nodes > 0:
		return "the nodes have no such GPU"
	case s.Node != "":
		return fmt.Sprintf("there is no node %q in the fleet that matches", s.Node)
	case s.Pool != "":
		return fmt.Sprintf("pool %q has no nodes that match", s.Pool)
	}
	return "no node matches the selector"
}

// hit is one fault on one node.
type hit struct {
	fault  *v1alpha1.Fault
	node   Node
	since  time.Time
	lasted time.Duration // simulated
	gpus   []int         // positions in node.GPUs, ascending
}

func (h hit) String() string {
	if !aboutGPUs(h.fault.Spec.Type) {
		return h.node.Name
	}
	text := make([]string, len(h.gpus))
	for i, g := range h.gpus {
		text[i] = strconv.Itoa(g)
	}
	return h.node.Name + "/" + strings.Join(text, ",")
}

// occurrence is where a fault is in its life at a moment.
type occurrence struct {
	phase  v1alpha1.FaultPhase
	times  int64     // that it has begun
	since  time.Time // when the present one began; zero: none
	healed time.Time // when the last one ended; zero: none has
	next   time.Time // when this changes; zero: never
}

// occurrenceAt is a function of the spec, the creation time and now alone.
func occurrenceAt(f *v1alpha1.Fault, c clock.Clock, now time.Time) occurrence {
	s := &f.Spec
	first := f.CreationTimestamp.Add(c.Wall(lengthOf(s.After)))
	if now.Before(first) {
		return occurrence{phase: v1alpha1.FaultWaiting, next: first}
	}
	lasts, every := c.Wall(lengthOf(s.For)), c.Wall(lengthOf(s.Every))
	switch {
	case lasts <= 0:
		return occurrence{phase: v1alpha1.FaultActive, times: 1, since: first}
	case every <= 0 && now.Before(first.Add(lasts)):
		return occurrence{phase: v1alpha1.FaultActive, times: 1, since: first, next: first.Add(lasts)}
	case every <= 0:
		return occurrence{phase: v1alpha1.FaultHealed, times: 1, healed: first.Add(lasts)}
	}
	k := int64(now.Sub(first) / every)
	start := first.Add(time.Duration(k) * every)
	o := occurrence{phase: v1alpha1.FaultWaiting, times: happened(f, k+1), next: start.Add(every)}
	if happens(f, k) && now.Before(start.Add(lasts)) {
		o.phase, o.since, o.next = v1alpha1.FaultActive, start, start.Add(lasts)
		k--
	}
	for oldest := max(0, k-lookBack); k >= oldest; k-- {
		if happens(f, k) {
			o.healed = first.Add(time.Duration(k)*every + lasts)
			break
		}
	}
	return o
}

// lookBack bounds the search for the last time that a fault with a probability happened, and the count of all.
const lookBack = 10000

// happened counts the first n draws that came true; of more than lookBack it is what is to be expected.
func happened(f *v1alpha1.Fault, n int64) (times int64) {
	if f.Spec.Probability == nil {
		return n
	}
	if n > lookBack {
		return n * int64(*f.Spec.Probability) / 100
	}
	for k := range n {
		if happens(f, k) {
			times++
		}
	}
	return times
}

func happens(f *v1alpha1.Fault, k int64) bool {
	p := f.Spec.Probability
	return p == nil || draw(f, "time", strconv.FormatInt(k, 10))%100 < uint64(max(*p, 0))
}

func lengthOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

// draw is a number that follows from the fault's seed and what it is for.
func draw(f *v1alpha1.Fault, parts ...string) uint64 {
	h := fnv.New64a()
	if f.Spec.Seed != nil {
		_ = binary.Write(h, binary.LittleEndian, *f.Spec.Seed)
		h.Write([]byte(f.Spec.Type))
	} else {
		h.Write([]byte(f.Name))
	}
	for _, p := range parts {
		h.Write([]byte{0})
		h.Write([]byte(p))
	}
	x := h.Sum64() // FNV alone mixes the last bytes badly
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// targetsOf are the nodes that the fault hits, in order of name. Each node has a number of its own, and the lowest are drawn:
// a node that comes or goes changes at most one of them.
func targetsOf(f *v1alpha1.Fault, nodes []Node) []Node {
	var out []Node
	for _, n := range nodes {
		if matches(&f.Spec, n) {
			out = append(out, n)
		}
	}
	if f.Spec.Count == nil || int(*f.Spec.Count) >= len(out) {
		return out
	}
	drawn := make(map[string]uint64, len(out))
	for _, n := range out {
		drawn[n.Name] = draw(f, "node", n.Name)
	}
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(cmp.Compare(drawn[a.Name], drawn[b.Name]), strings.Compare(a.Name, b.Name))
	})
	out = out[:max(*f.Spec.Count, 0)]
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func matches(s *v1alpha1.FaultSpec, n Node) bool {
	if s.Node == "" && s.Pool == "" && s.Selector == nil {
		return false
	}
	if s.Node != "" && s.Node != n.Name || s.Pool != "" && s.Pool != n.Pool {
		return false
	}
	if s.Selector == nil {
		return true
	}
	for key, value := range *s.Selector {
		if have, ok := n.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// gpusOf are the positions of the GPUs that are hit.
func gpusOf(f *v1alpha1.Fault, n Node) []int {
	s := &f.Spec
	if !aboutGPUs(s.Type) {
		return nil
	}
	drawn := map[int]bool{}
	switch {
	case len(s.GPUs) > 0 || len(s.UUIDs) > 0:
		for i, d := range n.GPUs {
			if slices.Contains(s.GPUs, int32(i)) || slices.Contains(s.UUIDs, d.UUID) {
				drawn[i] = true
			}
		}
	default:
		order := make([]int, len(n.GPUs))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(draw(f, "gpu", n.Name, strconv.Itoa(a)), draw(f, "gpu", n.Name, strconv.Itoa(b))), cmp.Compare(a, b))
		})
		for _, i := range order[:min(len(order), gpuCount(s))] {
			drawn[i] = true
		}
	}
	return slices.Sorted(maps.Keys(drawn))
}

// gpuCount is how many GPUs are hit where the fault does not name them: one breaks, and heat and power are the machine's.
func gpuCount(s *v1alpha1.FaultSpec) int {
	switch {
	case s.GPUCount != nil:
		return int(max(*s.GPUCount, 0))
	case s.Type == v1alpha1.FaultThermalThrottle || s.Type == v1alpha1.FaultPowerBrake:
		return maxGPUs
	}
	return 1
}

const maxGPUs = 64

func aboutGPUs(t v1alpha1.FaultType) bool {
	switch t {
	case v1alpha1.FaultXid, v1alpha1.FaultGPULost, v1alpha1.FaultECC, v1alpha1.FaultRowRemap,
		v1alpha1.FaultThermalThrottle, v1alpha1.FaultPowerBrake, v1alpha1.FaultNVLinkDown:
		return true
	}
	return false
}
