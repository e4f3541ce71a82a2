package payer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Machine is what is known of a machine that decides who pays for it.
type Machine struct {
	Reserved     string                // a reservation's id or name, as a label or a Machine has it; "": none is named
	Zone         string                // "": not known
	InstanceType string                // "": not known
	CapacityType v1alpha1.CapacityType // "": not known
	GPUs         int                   // 0: not known
	Pool         *Pool                 // nil: of none of Berth's. Machines of one pool share it
}

// Pool is what a pool says of who pays for its machines.
type Pool struct {
	Draws    []string // names of the reservations that may, the first first
	ByOthers bool     // its nodes are made by others, and tell themselves what they have
}

// Reservation is machines that are paid for.
type Reservation struct {
	Name string
	v1alpha1.ReservationSpec
	Paid bool // now
}

// PoolOf is the pool with those of its reservations whose machines can be of it. The pool went through Default.
func PoolOf(p *v1alpha1.Pool, all []Reservation) *Pool {
	out := &Pool{ByOthers: p.Spec.Selects != nil}
	for _, name := range p.Spec.Reservations {
		if i := slices.IndexFunc(all, func(r Reservation) bool { return r.Name == name }); i >= 0 && all[i].Within(p) && all[i].Suits(p) {
			out.Draws = append(out.Draws, name)
		}
	}
	return out
}

// rules say whether a reservation may pay for a machine, the strongest first.
var rules = [...]func(*Reservation, *Machine) bool{
	func(r *Reservation, m *Machine) bool { return r.NamedBy(m.Reserved, r.Name, m.Zone) },
	func(r *Reservation, m *Machine) bool {
		return m.Pool != nil && m.Reserved == "" && m.MayBeReserved() &&
			slices.Contains(m.Pool.Draws, r.Name) && r.InZone(m.Zone) && r.like(m)
	},
	func(r *Reservation, m *Machine) bool {
		return r.Match == v1alpha1.MatchOpen && m.Pool == nil && m.Reserved == "" && m.CapacityType == "" && m.InstanceType == r.InstanceType && r.InZone(m.Zone)
	},
}

// MayBeReserved says that the machine is not known to be paid for otherwise.
func (m *Machine) MayBeReserved() bool {
	return m.CapacityType == "" || m.CapacityType == v1alpha1.CapacityReserved
}

// like says whether a machine of a pool that draws on the reservation is what was reserved: by its type where that is a cloud's, else by its
// GPUs. Machines of the fleet have types of their own, and are what their pool is.
func (r *Reservation) like(m *Machine) bool {
	if m.InstanceType != "" && !strings.HasPrefix(m.InstanceType, "sim.") {
		return m.InstanceType == r.InstanceType
	}
	return !m.Pool.ByOthers || m.GPUs == 0 || m.GPUs == int(r.GPUs.Count)
}

// Assign is the reservation of each machine, by number; -1: none pays for it. Machines come in an order that does not depend on chance;
// the first ones are served first. Cost: the machines, and for each kind of machine that finds no place, all machines that reservations
// pay for.
func Assign(machines []Machine, reservations []Reservation) []int {
	a := &assignment{reservations: reservations, of: make([]int, len(machines)), kinds: make([]*kind, len(machines)), left: make([]int, len(reservations)), seen: make([]int, len(reservations))}
	for i := range reservations {
		if reservations[i].Paid {
			a.left[i] = max(0, int(reservations[i].Instances))
		}
	}
	known := make(map[Machine]*kind)
	for i := range machines {
		k := known[machines[i]]
		if k == nil {
			k = kindOf(&machines[i], reservations)
			known[machines[i]] = k
		}
		a.of[i], a.kinds[i] = -1, k
	}
	for rule := range rules {
		a.round(rule)
	}
	return a.of
}

// kind is machines of which the same is known.
type kind struct {
	choices [len(rules)][]int // reservations that may pay for them, by rule, the preferred first
	full    bool              // none of those of this round's rule has room, nor can be given any
	seen    int               // the last search that asked whether one of them can go elsewhere
}

func kindOf(m *Machine, reservations []Reservation) *kind {
	order := make([]int, 0, len(reservations))
	if m.Pool != nil {
		for _, name := range m.Pool.Draws {
			if i := slices.IndexFunc(reservations, func(r Reservation) bool { return r.Name == name }); i >= 0 {
				order = append(order, i)
			}
		}
	}
	drawn := len(order)
	for i := range reservations {
		if !slices.Contains(order[:drawn], i) {
			order = append(order, i)
		}
	}
	k := &kind{}
	for rule, pays := range rules {
		for _, i := range order {
			if reservations[i].Paid && pays(&reservations[i], m) {
				k.choices[rule] = append(k.choices[rule], i)
			}
		}
	}
	return k
}

// assignment is what is decided so far.
type assignment struct {
	reservations []Reservation
	of           []int
	kinds        []*kind // of machines
	left         []int   // instances without a machine
	rule         int
	held         [][]int // machines that this round gave to each reservation
	search       int
	seen         []int // the last search that asked whether the reservation can make room
}

// round gives machines to reservations by one rule: those with the fewest to choose from first.
func (a *assignment) round(rule int) {
	a.rule, a.held = rule, make([][]int, len(a.reservations))
	var order []int
	for i, k := range a.kinds {
		k.full = false
		if a.of[i] < 0 && len(k.choices[rule]) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(len(a.kinds[x].choices[rule]), len(a.kinds[y].choices[rule]))
	})
	for _, i := range order {
		k := a.kinds[i]
		if k.full {
			continue
		}
		a.search++
		k.seen = a.search
		if r := a.room(k); r >= 0 {
			a.of[i], a.held[r] = r, append(a.held[r], i)
		} else {
			k.full = true
		}
	}
}

// room takes an instance for a machine of the kind: one that is left, else one whose machine can go to another reservation, which may
// have to send one on in turn. It is the search for an augmenting path of a bipartite matching, with machines of one kind as one.
func (a *assignment) room(k *kind) int {
	for _, r := range k.choices[a.rule] {
		if a.left[r] > 0 {
			a.left[r]--
			return r
		}
	}
	for _, r := range k.choices[a.rule] {
		if a.seen[r] == a.search {
			continue
		}
		a.seen[r] = a.search
		for at, x := range a.held[r] {
			if other := a.kinds[x]; other.seen != a.search {
				other.seen = a.search
				if to := a.room(other); to >= 0 {
					a.held[r] = slices.Delete(a.held[r], at, at+1)
					a.of[x], a.held[to] = to, append(a.held[to], x)
					return r
				}
			}
		}
	}
	return -1
}
