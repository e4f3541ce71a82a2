package bill

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
)

// Tariff is what machines cost: prices of today, which the whole span of a bill is charged at.
type Tariff struct {
	Reservations []Reservation   // by name; a name occurs once
	Pools        map[string]Pool // of Berth's own

	selecting []string // of Pools, those of nodes that others make, sorted
}

// ready finds the pools of nodes that others make.
func (t *Tariff) ready() {
	t.selecting = nil
	//archtest:any-order sorted below
	for name, p := range t.Pools {
		if p.Selects != nil {
			t.selecting = append(t.selecting, name)
		}
	}
	slices.Sort(t.selecting)
}

// poolOf is the name of the pool of a node with the labels: the one that they name, else the first that selects it; "": none.
func (t *Tariff) poolOf(labels map[string]string) string {
	if name := labels[labelBerthPool]; name != "" {
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
	GPUs         int // of one machine; 0: not known
	Price        Price
	Selects      *v1alpha1.NodeSelection // the nodes of others that it stands for; nil: its own
}

func (r *Reservation) paid(at time.Time) bool {
	return !at.Before(r.Start) && (r.End.IsZero() || at.Before(r.End))
}

// Labels of nodes that tell what pays for them.
const (
	labelZone         = "topology.kubernetes.io/zone"
	labelType         = "node.kubernetes.io/instance-type"
	labelBerthPool    = v1alpha1.LabelPool
	labelCapacityType = "karpenter.sh/capacity-type"
	labelLaunchedAs   = v1alpha1.LabelCapacityType
)

var reservationLabels = [...]string{"karpenter.k8s.aws/capacity-reservation-id", "cloud.google.com/reservation-name"}

// payer is how well a reservation fits a machine: 1 its labels name it, 2 its pool does, 3 it is open to it; 0: not at all.
func (t *Tariff) payer(r *Reservation, labels map[string]string) int {
	named := ""
	for _, key := range reservationLabels {
		if named == "" {
			named = labels[key]
		}
	}
	pool, ofBerth := t.Pools[t.poolOf(labels)]
	paid := cmp.Or(labels[labelLaunchedAs], labels[labelCapacityType])
	inZone := r.Zone == "" || labels[labelZone] == "" || labels[labelZone] == r.Zone
	switch {
	case named != "" && (named == r.ID || inZone && (named == r.Name || strings.HasSuffix(r.ID, "/"+named))):
		return 1
	case ofBerth && named == "" && inZone && (paid == "" || paid == string(v1alpha1.CapacityReserved)) && slices.Contains(pool.Reservations, r.Name):
		return 2
	case r.Open && !ofBerth && named == "" && labels[labelCapacityType] == "" && labels[labelType] == r.InstanceType && inZone:
		return 3
	}
	return 0
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
