package join

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/payer"
	"github.com/berth-dev/berth/diagnose/check/l1"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// Causes of L1 that a reservation itself can have.
const (
	notStarted = "reservation-not-started"
	ended      = "reservation-ended"
	wrongZone  = "reservation-wrong-zone"
	wrongType  = "reservation-wrong-type"
	elsewhere  = "reservation-consumed-elsewhere"
	unused     = "reservation-unused-by-provisioner"
)

// Reserved is what there is to say of a reservation as a whole.
type Reserved struct {
	Name  string                    `json:"name"`
	State v1alpha1.ReservationState `json:"state"`
	Start time.Time                 `json:"start,omitzero"`
	End   time.Time                 `json:"end,omitzero"`
	GPUs  int64                     `json:"gpus"` // that it is for, whether they are paid for now or not
	Paid  bool                      `json:"paid"` // now
	// Cause is why machines of it cannot become nodes here, as `berth why` has it; "": they can.
	Cause   string `json:"cause,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Message string `json:"message,omitempty"`
}

type reservation struct {
	Reserved
	spec     v1alpha1.ReservationSpec
	left     *int32     // how many its provider said nobody has; nil: it did not
	machines []*machine // that it pays for
}

func (w *world) readReservations() {
	slots := int64(0)
	for _, name := range w.facts.ForeignNames(reservationKind, "") {
		var r v1alpha1.Reservation
		if runtime.DefaultUnstructuredConverter.FromUnstructured(w.facts.ForeignNamed(reservationKind, "", name).Object, &r) != nil {
			continue // the API server takes none that cannot be read; a bundle may have been edited
		}
		if slots += int64(r.Spec.Instances); slots > mostMachines || r.Spec.Instances < 0 || r.Spec.GPUs.Count < 0 || r.Spec.GPUs.Count > mostGPUs {
			slots -= int64(r.Spec.Instances)
			continue
		}
		x := reservation{spec: r.Spec, left: r.Left()}
		x.Name, x.State = name, r.StateAt(w.facts.At)
		x.GPUs = int64(r.Spec.Instances) * int64(r.Spec.GPUs.Count)
		if r.Spec.Start != nil {
			x.Start = r.Spec.Start.UTC()
		}
		if r.Spec.End != nil {
			x.End = r.Spec.End.UTC()
		}
		x.Paid = x.State == v1alpha1.ReservationActive || x.State == v1alpha1.ReservationExpiring
		w.reservations = append(w.reservations, x)
	}
}

// assign gives each machine to the reservation that pays for it. Machines come by name, so that the same cluster always gives the same
// account.
func (w *world) assign() {
	payers, pools := w.payers(), make(map[*v1alpha1.Pool]*payer.Pool)
	machines := make([]payer.Machine, len(w.machines))
	for i, m := range w.machines {
		machines[i] = payer.Machine{Reserved: m.reserved, Zone: m.zone, InstanceType: m.kind, CapacityType: m.capacity, GPUs: m.gpus}
		if m.berth != nil {
			if pools[m.berth] == nil {
				pools[m.berth] = payer.PoolOf(m.berth, payers)
			}
			machines[i].Pool = pools[m.berth]
		}
	}
	for i, of := range payer.Assign(machines, payers) {
		if of >= 0 {
			r := &w.reservations[of]
			w.machines[i].paidBy, r.machines = r, append(r.machines, w.machines[i])
		}
	}
}

func (w *world) payers() []payer.Reservation {
	out := make([]payer.Reservation, len(w.reservations))
	for i := range w.reservations {
		r := &w.reservations[i]
		out[i] = payer.Reservation{Name: r.Name, ReservationSpec: r.spec, Paid: r.Paid}
	}
	return out
}

// reserved are the units of a reservation: its machines, and places of which no machine came.
func (w *world) reserved(r *reservation) []unit {
	if !r.Paid {
		r.unpaid(w.facts.At)
		return nil
	}
	var out []unit
	for _, m := range r.machines {
		out = append(out, w.unit(r.Name+"/"+m.name, m, r)...)
	}
	left := int(r.spec.Instances) - len(r.machines)
	if left == 0 || r.spec.GPUs.Count == 0 {
		return out
	}
	away := 0
	if r.left != nil {
		away = min(left, max(0, int(r.spec.Instances)-int(*r.left)-len(r.machines)))
	}
	cause, pool, said := w.whyNotLaunched(r)
	said.Ask = "who holds reservation " + cmp.Or(strings.TrimSpace(string(r.spec.Provider)+" "+r.spec.ID), r.Name)
	r.Cause, r.Message = cause, said.Message
	if cause == capacity.NotRequested {
		r.Cause, r.Message = "", ""
	}
	used := Said{Message: fmt.Sprintf("%d of %d instances of reservation %s are in use, and %d of them are not in this cluster", int(r.spec.Instances)-left+away, r.spec.Instances, r.Name, away), Fix: "find out which cluster or account has them, and have it give them back"}
	if away > 0 && (away == left || cause == capacity.NotRequested) {
		r.Cause, r.Message = elsewhere, used.Message
	}
	if r.Cause != "" {
		r.Owner = ownerOf(r.Cause)
	}
	for i := range left {
		a := capacity.Account{Reservation: r.Name, Pool: pool, Zone: r.spec.Zone, Stage: capacity.Paid, Cause: cause}
		say := said
		if i < away {
			a.Cause, say = elsewhere, used
		}
		a.Owner = ownerOf(a.Cause)
		since := r.Start
		out = append(out, unit{gpus: gpus(fmt.Sprintf("%s/#%d", r.Name, i), int(r.spec.GPUs.Count), a, since, r.spec.Price), said: say})
	}
	return out
}

// unpaid says why nothing of the reservation is to be had.
func (r *reservation) unpaid(now time.Time) {
	switch r.State {
	case v1alpha1.ReservationScheduled:
		r.Cause = notStarted
		r.Message = fmt.Sprintf("reservation %s has not started", r.Name)
		if r.Start.After(now) {
			r.Message = fmt.Sprintf("reservation %s starts at %s, in %s", r.Name, clock(r.Start), rough(r.Start.Sub(now)))
		}
	case v1alpha1.ReservationFailed:
		r.Cause, r.Message = ended, fmt.Sprintf("reservation %s failed: the provider gives nothing of it", r.Name)
	default:
		r.Cause, r.Message = ended, fmt.Sprintf("reservation %s has ended", r.Name)
		if !r.End.IsZero() && !r.End.After(now) {
			r.Message = fmt.Sprintf("reservation %s ended at %s", r.Name, clock(r.End))
		}
	}
	r.Owner = ownerOf(r.Cause)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// refused is what a provider last answered the pools when they asked for a machine: Karpenter's, by their NodeClaims and the events of
// those that are gone, and Berth's, whose status remembers it.
func (w *world) refused(pools []string) (cause string, said Said, ok bool) {
	for _, name := range pools {
		nodePool := name
		if p := w.pools[name]; p != nil {
			for i := range p.Status.Stockouts {
				if s := &p.Status.Stockouts[i]; s.Until.After(w.facts.At) {
					return l1.CauseOfRefusal(s.Error + ": " + s.Message), Said{Message: fmt.Sprintf("the provider refused machines of pool %s: %s", name, strings.TrimSuffix(s.Error+": "+s.Message, ": ")), Fix: refusedFix}, true
				}
			}
			if p.Spec.Selects != nil {
				nodePool = p.Spec.Selects.NodePool
			}
		}
		i := slices.IndexFunc(w.nodePools, func(p *karpenter.Pool) bool { return p.GetName() == nodePool })
		if i < 0 {
			continue
		}
		if r, was := l1.RefusedBy(w.facts, w.nodePools[i]); was {
			return r.Cause, Said{Message: fmt.Sprintf("the provider refused NodeClaim %s of pool %s at %s: %s", r.Claim, name, clock(r.At), r.Text), Fix: refusedFix}, true
		}
	}
	return "", Said{}, false
}

const refusedFix = "read what the provider says: it asks for another zone or type, for more quota, or for time"

// whyNotLaunched says why machines of an active reservation do not come: nobody draws on it; who does may have machines only
// in another zone, or of another type; or nobody asks for more.
func (w *world) whyNotLaunched(r *reservation) (cause, pool string, said Said) {
	var drawn, near, like []string // names of pools
	for _, name := range sortedNames(w.pools) {
		p := w.pools[name]
		if !slices.Contains(p.Spec.Reservations, r.Name) {
			continue
		}
		drawn = append(drawn, name)
		zone, same := r.spec.Within(p), r.spec.Suits(p)
		if zone {
			near = append(near, name)
		}
		if zone && same {
			like = append(like, name)
		}
	}
	for _, p := range w.nodePools {
		if !slices.ContainsFunc(p.Reservations(), func(k karpenter.Reservation) bool { return r.spec.NamedBy(k.Id, r.Name, k.Zone) }) || !p.Permits(karpenter.CapacityTypeLabel, karpenter.Reserved) {
			continue
		}
		drawn = append(drawn, p.GetName())
		zone, same := r.spec.Zone == "" || p.Permits(corev1.LabelTopologyZone, r.spec.Zone), p.Permits(corev1.LabelInstanceTypeStable, r.spec.InstanceType)
		if zone {
			near = append(near, p.GetName())
		}
		if zone && same {
			like = append(like, p.GetName())
		}
	}
	switch {
	case len(like) > 0:
		pool = like[0]
		if cause, said, ok := w.refused(like); ok {
			return cause, pool, said
		}
		return capacity.NotRequested, pool, Said{
			Message: fmt.Sprintf("pool %s draws on reservation %s and asks for %d of its %d instances", pool, r.Name, len(r.machines), r.spec.Instances),
			Fix:     fmt.Sprintf("have pool %s ask for more machines, or give the rest of the reservation back", pool),
		}
	case len(near) > 0:
		pool = near[0]
		return wrongType, pool, Said{
			Message: fmt.Sprintf("reservation %s is for %s with %d %s, and pool %s has machines of another type", r.Name, r.spec.InstanceType, r.spec.GPUs.Count, cmp.Or(r.spec.GPUs.Model, "GPUs"), pool),
			Fix:     fmt.Sprintf("have a pool of %s draw on the reservation", r.spec.InstanceType),
		}
	case len(drawn) > 0:
		pool = drawn[0]
		said = Said{Message: fmt.Sprintf("reservation %s is in zone %s, and pool %s is not", r.Name, r.spec.Zone, pool), Fix: "have a pool in zone " + r.spec.Zone + " draw on the reservation"}
		if p := w.pools[pool]; p != nil && p.Spec.Launch == nil {
			said.Message = fmt.Sprintf("reservation %s is in zone %s, and pool %s is in zone %s", r.Name, r.spec.Zone, pool, p.Spec.Topology.Zone)
		}
		return wrongZone, pool, said
	}
	said = Said{Message: fmt.Sprintf("reservation %s is active, and no pool draws on it", r.Name), Fix: "name the reservation in the pool that is to use it, and have that pool make the machines"}
	if name := w.couldDraw(r); name != "" {
		p := w.pools[name]
		names := append(slices.Clone(p.Spec.Reservations), r.Name)
		said.Fix = fmt.Sprintf("have pool %s draw on it, with %d more", name, r.spec.Instances)
		if len(p.Spec.NodeNames) == 0 && p.Spec.Nodes != nil {
			said.Command = fmt.Sprintf(`kubectl patch pool %s --type=merge -p '{"spec":{"nodes":%d,"reservations":["%s"]}}'`, name, *p.Spec.Nodes+r.spec.Instances, strings.Join(names, `","`))
		}
	}
	return unused, "", said
}

// couldDraw is the first pool whose machines are what was reserved, where they were; "": none.
func (w *world) couldDraw(r *reservation) string {
	for _, name := range sortedNames(w.pools) {
		if p := w.pools[name]; r.spec.LikePool(p) && r.spec.Within(p) {
			return name
		}
	}
	return ""
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	//archtest:any-order sorted below
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// rough is a duration as people say it.
func rough(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
