package provision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// everyEnds is how often it is looked which nodes leave with their reservation: ends are hours away, and all nodes are listed.
const everyEnds = 10 * time.Second

// leaveBefore is how long before the end of its reservation work has left a node, where its pool says nothing. EC2 ends the instances
// of a capacity block from 30 minutes before its end.
const leaveBefore = 45 * time.Minute

// reservationLabels name the reservation that a node is of, in the words of who makes nodes.
var reservationLabels = []string{"karpenter.k8s.aws/capacity-reservation-id", "cloud.google.com/reservation-name"}

// withReservation begins what a node goes away with that leaves with a reservation; others write other words.
const withReservation = "reservation "

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
	want := leavingNodes(nodes, pools, reservations, machines)
	for i := range nodes {
		n := &nodes[i]
		next, at := want[n.Name], ""
		if !next.at.IsZero() {
			at = next.at.UTC().Format(time.RFC3339)
		}
		with := n.Annotations[v1alpha1.KeyLeavesWith]
		if at == "" && !strings.HasPrefix(with, withReservation) || n.Annotations[v1alpha1.KeyLeavesAt] == at && with == next.with {
			continue
		}
		if err := c.SetLeaves(ctx, n.Name, at, next.with); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// leavingNodes are the nodes that go away with a reservation, by name.
func leavingNodes(nodes []corev1.Node, pools []v1alpha1.Pool, reservations []v1alpha1.Reservation, machines []v1alpha1.Machine) map[string]leaving {
	asked := make(map[string]*v1alpha1.Machine, len(machines))
	for i := range machines {
		asked[machines[i].Name] = &machines[i]
	}
	byName := make(map[string]*v1alpha1.Reservation, len(reservations))
	for i := range reservations {
		byName[reservations[i].Name] = &reservations[i]
	}
	order := make([]*corev1.Node, len(nodes))
	for i := range nodes {
		order[i] = &nodes[i]
	}
	slices.SortFunc(order, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	out, drawn := make(map[string]leaving), make(map[string]int)
	take := func(n *corev1.Node, r *v1alpha1.Reservation, before time.Duration) {
		drawn[r.Name]++
		if r.Spec.End != nil {
			out[n.Name] = leaving{r.Spec.End.Add(-before), withReservation + r.Name}
		}
	}
	var rest []*corev1.Node // of which only their pool tells
	for _, n := range order {
		p := poolOf(n.Labels, pools)
		switch m, named := asked[n.Name], namedBy(n.Labels, reservations); {
		case m != nil && m.Spec.Reservation != "" && byName[m.Spec.Reservation] != nil:
			take(n, byName[m.Spec.Reservation], before(p))
		case m != nil:
		case named != nil:
			take(n, named, before(p))
		case p != nil && len(p.Spec.Reservations) > 0 && mayBeReserved(n.Labels):
			rest = append(rest, n)
		}
	}
	for _, n := range rest {
		p := poolOf(n.Labels, pools)
		for _, name := range p.Spec.Reservations {
			r := byName[name]
			if r != nil && drawn[name] < int(r.Spec.Instances) && r.Spec.InZone(n.Labels[corev1.LabelTopologyZone]) && r.Spec.Suits(p) {
				take(n, r, before(p))
				break
			}
		}
	}
	return out
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

// namedBy is the reservation that the labels name; nil: none. A name, or the last part of an id, reservations of several zones may have in
// common.
func namedBy(labels map[string]string, reservations []v1alpha1.Reservation) *v1alpha1.Reservation {
	for _, key := range reservationLabels {
		for i := range reservations {
			r := &reservations[i]
			value, here := labels[key], r.Spec.InZone(labels[corev1.LabelTopologyZone])
			if value != "" && (value == r.Spec.ID || here && (value == r.Name || strings.HasSuffix(r.Spec.ID, "/"+value))) {
				return r
			}
		}
	}
	return nil
}

// mayBeReserved says that a node with the labels is not known to be paid for otherwise.
func mayBeReserved(labels map[string]string) bool {
	paid := cmp.Or(labels[v1alpha1.LabelCapacityType], labels["karpenter.sh/capacity-type"])
	return paid == "" || paid == string(v1alpha1.CapacityReserved)
}
