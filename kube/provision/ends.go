package provision

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/payer"
)

// everyEnds is how often it is looked which nodes leave with their reservation: ends are hours away, and all nodes are listed.
const everyEnds = 10 * time.Second

// leaveBefore is how long before the end of its reservation work has left a node, where its pool says nothing. EC2 ends the instances
// of a capacity block from 30 minutes before its end.
const leaveBefore = 45 * time.Minute

// leaving is when a node goes away, and with which reservation.
type leaving struct {
	at   time.Time
	with string
}

// tellEnds writes on nodes when their reservation takes them away, so that the scheduler starts nothing there that would not be over,
// and warns what runs. What others wrote on nodes that no reservation here pays for is left alone.
func (c *controller) tellEnds(ctx context.Context, pools []v1alpha1.Pool, reservations []v1alpha1.Reservation, machines []v1alpha1.Machine, now time.Time) error {
	ends := slices.ContainsFunc(reservations, func(r v1alpha1.Reservation) bool { return r.Spec.End != nil })
	if !ends && !c.ended || now.Before(c.lookedEnds.Add(everyEnds)) && !now.Before(c.lookedEnds) {
		return nil
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	c.lookedEnds, c.ended = now, ends
	want := leavingNodes(nodes, pools, reservations, machines, now)
	for i := range nodes {
		n := &nodes[i]
		next, at := want[n.Name], ""
		if !next.at.IsZero() {
			at = next.at.UTC().Format(time.RFC3339)
		}
		if n.Annotations[v1alpha1.KeyLeavesAt] == at && n.Annotations[v1alpha1.KeyLeavesWith] == next.with || leavesSooner(n, next) {
			continue
		}
		if err := c.SetLeaves(ctx, n.Name, at, next.with); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// leavesSooner says whether others have written that the node goes away, and no later than the reservation takes it.
func leavesSooner(n *corev1.Node, next leaving) bool {
	if strings.HasPrefix(n.Annotations[v1alpha1.KeyLeavesWith], v1alpha1.LeavesWithReservation) {
		return false
	}
	at, err := time.Parse(time.RFC3339, n.Annotations[v1alpha1.KeyLeavesAt])
	return next.at.IsZero() || err == nil && !at.After(next.at)
}

// leavingNodes are the nodes that go away with a reservation, by name. A node of which only its pool tells stays with the reservation that
// was written on it, until that is over and the node is gone: otherwise every node that comes would move the end of others, and those of a
// reservation that has just ended would take new work.
func leavingNodes(nodes []corev1.Node, pools []v1alpha1.Pool, reservations []v1alpha1.Reservation, machines []v1alpha1.Machine, now time.Time) map[string]leaving {
	asked := make(map[string]*v1alpha1.Machine, len(machines))
	for i := range machines {
		asked[machines[i].Name] = &machines[i]
	}
	payers := make([]payer.Reservation, len(reservations))
	for i := range reservations {
		state := reservations[i].StateAt(now)
		payers[i] = payer.Reservation{Name: reservations[i].Name, ReservationSpec: reservations[i].Spec, Paid: state == v1alpha1.ReservationActive || state == v1alpha1.ReservationExpiring}
	}
	order := make([]*corev1.Node, len(nodes))
	for i := range nodes {
		order[i] = &nodes[i]
	}
	slices.SortFunc(order, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	out := make(map[string]leaving)
	take := func(n *corev1.Node, p *v1alpha1.Pool, i int) {
		if takesBack(&reservations[i], now) {
			out[n.Name] = leaving{reservations[i].Spec.End.Add(-before(p)), v1alpha1.LeavesWithReservation + reservations[i].Name}
		}
	}
	var rest []*corev1.Node // of which only their pool tells
	var unsure []payer.Machine
	known := make(map[*v1alpha1.Pool]*payer.Pool)
	for _, n := range order {
		p := poolOf(n.Labels, pools)
		m := payer.Machine{Reserved: v1alpha1.ReservedAs(n.Labels), Zone: n.Labels[corev1.LabelTopologyZone], InstanceType: n.Labels[corev1.LabelInstanceTypeStable], CapacityType: v1alpha1.CapacityTypeOf(n.Labels)}
		if a := asked[n.Name]; a != nil {
			m.CapacityType, m.Reserved = a.Spec.CapacityType, a.Spec.Reservation
		}
		if p != nil {
			if known[p] == nil {
				known[p] = payer.PoolOf(p, payers)
			}
			m.Pool = known[p]
		}
		named := slices.IndexFunc(payers, func(r payer.Reservation) bool { return r.NamedBy(m.Reserved, r.Name, m.Zone) })
		was, written := strings.CutPrefix(n.Annotations[v1alpha1.KeyLeavesWith], v1alpha1.LeavesWithReservation)
		if written && named < 0 && m.Reserved == "" && m.MayBeReserved() && m.Pool != nil && slices.Contains(m.Pool.Draws, was) {
			named = slices.IndexFunc(payers, func(r payer.Reservation) bool { return r.Name == was && r.InZone(m.Zone) && r.Instances > 0 })
		}
		if named >= 0 {
			payers[named].Instances--
			take(n, p, named)
			continue
		}
		rest, unsure = append(rest, n), append(unsure, m)
	}
	for i, of := range payer.Assign(unsure, payers) {
		if of >= 0 {
			take(rest[i], poolOf(rest[i].Labels, pools), of)
		}
	}
	return out
}

// takesBack says whether the reservation has an end at which it takes its machines back: one that failed, or was given up before, does not.
func takesBack(r *v1alpha1.Reservation, now time.Time) bool {
	state := r.StateAt(now)
	return r.Spec.End != nil && state != v1alpha1.ReservationFailed && (state != v1alpha1.ReservationExpired || !now.Before(r.Spec.End.Time))
}

func before(p *v1alpha1.Pool) time.Duration {
	if p != nil && p.Spec.Launch != nil && p.Spec.Launch.DrainBefore != nil {
		return p.Spec.Launch.DrainBefore.Duration
	}
	return leaveBefore
}

// poolOf is the pool of a node with the labels; nil: none.
func poolOf(labels map[string]string, pools []v1alpha1.Pool) *v1alpha1.Pool {
	for i := range pools {
		if p := &pools[i]; labels[v1alpha1.LabelPool] == p.Name || labels[v1alpha1.LabelPool] == "" && p.Spec.Selects.Matches(labels) {
			return p
		}
	}
	return nil
}
