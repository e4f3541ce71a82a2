package bill

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/payer"
	"github.com/berth-dev/berth/engine"
)

// Tariff is what machines cost: prices of today, which the whole span of a bill is charged at.
type Tariff struct {
	Reservations []Reservation   // by name; a name occurs once
	Pools        map[string]Pool // of Berth's own

	selecting  []string               // of Pools, those of nodes that others make, sorted
	payerPools map[string]*payer.Pool // of Pools
}

// ready finds the pools of nodes that others make.
func (t *Tariff) ready() {
	t.selecting, t.payerPools = nil, make(map[string]*payer.Pool, len(t.Pools))
	//archtest:any-order sorted below
	for name, p := range t.Pools {
		t.payerPools[name] = &payer.Pool{Draws: p.Reservations, ByOthers: p.Selects != nil}
		if p.Selects != nil {
			t.selecting = append(t.selecting, name)
		}
	}
	slices.Sort(t.selecting)
}

// poolOf is the name of the pool of a node with the labels: the one that they name, else the first that selects it; "": none.
func (t *Tariff) poolOf(labels map[string]string) string {
	if name := labels[v1alpha1.LabelPool]; name != "" {
		if _, ok := t.Pools[name]; ok {
			return name
		}
	}
	for _, name := range t.selecting {
		if t.Pools[name].Selects.Matches(labels) {
			return name
		}
	}
	return ""
}

// Price is that of a machine for an hour.
type Price struct {
	Known    bool // false: nobody said; Micro is 0 then, and counts for nothing
	Micro    capacity.Micro
	Currency string
}

// Reservation is machines that are paid for from Start to End, whether or not they become nodes.
type Reservation struct {
	Name, ID     string // ID is the provider's
	InstanceType string
	Zone         string // "": any
	GPUs         int    // of one machine
	Instances    int
	Open         bool // any machine of the type in the zone is one of it
	Start, End   time.Time
	Price        Price
}

// Pool is a pool of machines. Reservations are the names of those that pay for its machines, in order.
type Pool struct {
	Reservations []string
	GPUs         int                     // of one machine; 0: not known
	Price, Spot  Price                   // of a machine that no reservation pays for: on demand, or spot
	Selects      *v1alpha1.NodeSelection // the nodes of others that it stands for; nil: its own
}

func (r *Reservation) paid(at time.Time) bool {
	return !at.Before(r.Start) && (r.End.IsZero() || at.Before(r.End))
}

// price is that of a machine of the pool that no reservation pays for.
func (p *Pool) price(m *payer.Machine) Price {
	if m.CapacityType == v1alpha1.CapacitySpot {
		return p.Spot
	}
	return p.Price
}

// payers are the reservations, of which none is paid for yet.
func (t *Tariff) payers() []payer.Reservation {
	out := make([]payer.Reservation, len(t.Reservations))
	for i := range t.Reservations {
		r := &t.Reservations[i]
		out[i].Name = r.Name
		out[i].ReservationSpec = v1alpha1.ReservationSpec{ID: r.ID, InstanceType: r.InstanceType, GPUs: v1alpha1.ReservedGPUs{Count: int32(r.GPUs)}, Instances: int32(r.Instances), Zone: r.Zone}
		if r.Open {
			out[i].Match = v1alpha1.MatchOpen
		}
	}
	return out
}

// machineOf is what the labels of a node say of who pays for it.
func (t *Tariff) machineOf(n *engine.Node, gpus int64) payer.Machine {
	return payer.Machine{
		Reserved: v1alpha1.ReservedAs(n.Labels), Zone: n.Labels[corev1.LabelTopologyZone], InstanceType: n.Labels[corev1.LabelInstanceTypeStable],
		CapacityType: v1alpha1.CapacityTypeOf(n.Labels), GPUs: int(gpus), Pool: t.payerPools[t.poolOf(n.Labels)],
	}
}

// boundaries are the moments at which reservations begin and end, in order.
func (t *Tariff) boundaries() (out []time.Time) {
	for i := range t.Reservations {
		for _, at := range []time.Time{t.Reservations[i].Start, t.Reservations[i].End} {
			if !at.IsZero() {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return slices.CompactFunc(out, time.Time.Equal)
}
