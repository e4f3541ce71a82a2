package provision

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/launch"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// view is what one look saw.
type view struct {
	now      time.Time
	backoff  time.Duration
	pools    map[string]*v1alpha1.Pool // with defaults
	machines []v1alpha1.Machine
}

func (v *view) machine(name string) *v1alpha1.Machine {
	for i := range v.machines {
		if v.machines[i].Name == name {
			return &v.machines[i]
		}
	}
	return nil
}

// names are the pools in order.
func (v *view) names() (out []string) {
	for name := range v.pools {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// world is the view as capacity/launch takes it.
func (c *controller) world(v *view, reservations []v1alpha1.Reservation, snap engine.Snapshot, policy engine.Config) *launch.World {
	w := &launch.World{Now: v.now, Cluster: snap, Policy: policy}
	for _, name := range v.names() {
		p := v.pools[name]
		if p.Spec.Launch == nil {
			continue
		}
		x, err := c.pool(p, reservations, policy.GPU)
		if err != nil {
			c.Log.Warn("pool", "err", err) // others launch on; its own status says what is wrong with it
			continue
		}
		w.Pools = append(w.Pools, x)
		for _, s := range v.stockouts(p) {
			w.Stockouts = append(w.Stockouts, launch.Stockout{
				Pool: p.Name, Zone: s.Zone, From: launch.Source{Capacity: launch.Capacity(s.CapacityType), Reservation: s.Reservation},
				Error: s.Error, Until: s.Until.Time, Got: int(s.Got),
			})
		}
	}
	for i := range reservations {
		w.Reservations = append(w.Reservations, reservation(&reservations[i], v))
	}
	nodes := make(map[string]*engine.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		nodes[snap.Nodes[i].Name] = &snap.Nodes[i]
	}
	for i := range v.machines {
		if p := v.pools[v.machines[i].Spec.Pool]; p != nil && p.Spec.Launch != nil && !slices.ContainsFunc(w.Pools, func(o launch.Pool) bool { return o.Name == p.Name }) {
			continue // its pool cannot be carried out as it is written: what it has is left alone
		}
		w.Machines = append(w.Machines, machine(&v.machines[i], nodes[v.machines[i].Name], w))
	}
	return w
}

// pool is a Pool as capacity/launch takes it.
func (c *controller) pool(p *v1alpha1.Pool, reservations []v1alpha1.Reservation, gpu string) (launch.Pool, error) {
	l := p.Spec.Launch
	out := launch.Pool{
		Name: p.Name, Zones: l.Zones, IdleFor: l.ConsolidateAfter.Duration, DrainBefore: l.DrainBefore.Duration, ReadyWithin: l.ReadyWithin.Duration,
	}
	if l.Static != nil {
		out.Static = new(int(*l.Static))
	} else {
		out.Min, out.Max, out.Headroom = int(*l.Min), int(*l.Max), int(*l.Headroom)
	}
	if l.Consolidation == v1alpha1.ConsolidateNever {
		out.IdleFor = -1
	}
	for _, from := range l.From {
		if from != v1alpha1.CapacityReserved {
			out.From = append(out.From, launch.Source{Capacity: launch.Capacity(from)})
			continue
		}
		for _, name := range p.Spec.Reservations {
			other := func(r v1alpha1.Reservation) bool { return r.Name == name && !r.Spec.LikePool(p) }
			if !slices.ContainsFunc(reservations, other) { // machines of another type are not the pool's
				out.From = append(out.From, launch.Source{Capacity: launch.Reserved, Reservation: name})
			}
		}
	}
	sample, err := c.Like(p, 0)
	if err != nil {
		return out, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	node := convert.Node(sample, convert.Options{GPU: gpu})
	likes := make(map[[2]string]*v1alpha1.Pool)
	out.Like = func(i int, zone string, from launch.Source) engine.Node {
		key := [2]string{zone, string(from.Capacity)}
		if likes[key] == nil {
			likes[key] = p.InZone(zone, v1alpha1.CapacityType(from.Capacity))
		}
		n := node
		n.Labels = make(map[string]string, len(node.Labels)+4)
		for key, value := range node.Labels {
			n.Labels[key] = value
		}
		for key, value := range likes[key].NodeLabels(i) {
			n.Labels[key] = value
		}
		delete(n.Labels, "kubernetes.io/hostname")
		n.Devices = slices.Clone(node.Devices)
		for j := range n.Devices {
			n.Devices[j].ID = fmt.Sprintf("%s-%s-%d-%d", p.Name, zone, i, j)
		}
		return n
	}
	return out, nil
}

// reservation is one as capacity/launch takes it.
func reservation(r *v1alpha1.Reservation, v *view) launch.Reservation {
	out := launch.Reservation{Name: r.Name, Zone: r.Spec.Zone, Instances: int(r.Spec.Instances)}
	if r.Spec.Start != nil {
		out.Start = r.Spec.Start.Time
	}
	if r.Spec.End != nil {
		out.End = r.Spec.End.Time
	}
	if left := r.Left(); left != nil {
		out.Available, out.Observed = new(int(*left)), v.now
		if r.Status.ObservedAt != nil {
			out.Observed = r.Status.ObservedAt.Time
		}
	}
	state := r.StateAt(v.now)
	out.Failed = state == v1alpha1.ReservationFailed || state == v1alpha1.ReservationExpired || state == v1alpha1.ReservationScheduled && (r.Spec.Start == nil || !r.Spec.Start.After(v.now))
	return out
}

// machine is one as capacity/launch takes it. It is ready when its node has all the GPUs that it should and takes work.
func machine(m *v1alpha1.Machine, n *engine.Node, w *launch.World) launch.Machine {
	out := launch.Machine{
		Name: m.Name, Pool: m.Spec.Pool, Index: int(m.Spec.Index), Zone: m.Spec.Zone, For: m.Spec.For, Error: m.Status.Error,
		From: launch.Source{Capacity: launch.Capacity(m.Spec.CapacityType), Reservation: m.Spec.Reservation}, Launched: m.CreationTimestamp.Time, State: launch.Launching,
	}
	if m.Status.LaunchedAt != nil {
		out.Launched = m.Status.LaunchedAt.Time
	}
	switch {
	case m.DeletionTimestamp != nil:
		out.State = launch.Leaving
	case m.Status.Phase == v1alpha1.MachineFailed:
		out.State = launch.Failed
		if m.Status.LaunchedAt == nil {
			out.Launched = time.Time{}
		}
	case n != nil && complete(n, out, w):
		out.State = launch.Ready
	}
	if m.Status.IdleSince != nil && out.State == launch.Ready {
		out.Idle = m.Status.IdleSince.Time
	}
	out.Draining = n != nil && n.Cordoned && slices.ContainsFunc(n.Taints, func(t engine.Taint) bool { return t.Key == drainTaint })
	return out
}

// drainTaint is on nodes that are drained here, beside the cordon that others may set too.
const drainTaint = v1alpha1.KeyPrefix + "draining"

// complete says whether the node is as a machine of its pool should be.
func complete(n *engine.Node, m launch.Machine, w *launch.World) bool {
	i := slices.IndexFunc(w.Pools, func(p launch.Pool) bool { return p.Name == m.Pool })
	if i < 0 {
		return true
	}
	for _, t := range n.Taints {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != "node.kubernetes.io/unschedulable" {
			return false
		}
	}
	for _, a := range w.Pools[i].Like(m.Index, m.Zone, m.From).Allocatable {
		if strings.Contains(a.Resource, "/") && n.Allocatable.Get(a.Resource) < a.Value {
			return false
		}
	}
	return true
}

// machineOf is what is asked for by a decision.
func machineOf(d launch.Decision) *v1alpha1.Machine {
	m := &v1alpha1.Machine{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Machine"}}
	m.Name = d.Machine
	m.Labels = map[string]string{v1alpha1.LabelPool: d.Pool}
	m.Spec = v1alpha1.MachineSpec{Pool: d.Pool, Index: int32(d.Index), Zone: d.Zone, CapacityType: v1alpha1.CapacityType(d.From.Capacity), Reservation: d.From.Reservation, For: d.For}
	return m
}

// tellIdle writes since when machines are without work, and has the world know it. Pods that may be on one node alone are the
// node's own, as those of DaemonSets, unless they have GPUs.
func (c *controller) tellIdle(ctx context.Context, v *view, w *launch.World) error {
	busy := make(map[string]bool)
	for i := range w.Cluster.Pods {
		p := &w.Cluster.Pods[i]
		if p.Node != "" && (!p.Foreign && p.NodeName == "" || p.Requests.Get(cmp.Or(w.Policy.GPU, "nvidia.com/gpu")) > 0) {
			busy[p.Node] = true
		}
	}
	for _, a := range w.Cluster.Assumptions {
		busy[a.Node] = true
	}
	for i := range w.Machines {
		m := &w.Machines[i]
		if m.State != launch.Ready || busy[m.Name] == m.Idle.IsZero() {
			continue
		}
		since := v.now
		if busy[m.Name] {
			since = time.Time{}
		}
		if err := c.SetIdle(ctx, v.machine(m.Name), since); err != nil {
			return err
		}
		m.Idle = since
	}
	return nil
}

// stockouts are what the pool's provider said it has not: what is remembered, and what failed machines say now. A second refusal while
// the first still holds is the same one.
func (v *view) stockouts(p *v1alpha1.Pool) []v1alpha1.Stockout {
	out := slices.Clone(p.Status.Stockouts)
	for i := range v.machines {
		m := &v.machines[i]
		if m.Spec.Pool != p.Name {
			continue
		}
		switch {
		case m.Status.Phase == v1alpha1.MachineFailed:
			out = v.refuse(out, m, cmp.Or(m.Status.Error, "Failed"), m.Status.Message)
		case m.Status.Phase == "" && !v.now.Before(m.CreationTimestamp.Add(p.Spec.Launch.ReadyWithin.Duration)):
			out = v.refuse(out, m, string(v1alpha1.ErrorLaunchTimeout), "The provider did not answer.")
		}
	}
	given := func(s v1alpha1.Stockout) bool { // it has machines again
		return slices.ContainsFunc(v.machines, func(m v1alpha1.Machine) bool {
			return m.Spec.Pool == p.Name && m.Spec.Zone == s.Zone && m.Spec.CapacityType == s.CapacityType && m.Status.LaunchedAt != nil && m.Status.LaunchedAt.After(s.Until.Time)
		})
	}
	out = slices.DeleteFunc(out, func(s v1alpha1.Stockout) bool { return v.now.After(s.Until.Add(2*maxBackoff)) || given(s) })
	slices.SortFunc(out, func(a, b v1alpha1.Stockout) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(string(a.CapacityType), string(b.CapacityType)), strings.Compare(a.Reservation, b.Reservation))
	})
	return out
}

func (v *view) refuse(list []v1alpha1.Stockout, m *v1alpha1.Machine, code, message string) []v1alpha1.Stockout {
	s := v1alpha1.Stockout{Zone: m.Spec.Zone, CapacityType: m.Spec.CapacityType, Reservation: m.Spec.Reservation, Error: code, Message: message, Failures: 1}
	if !v1alpha1.LaunchError(code).OfZone() {
		s.Zone = ""
	}
	for i := range v.machines {
		if o := &v.machines[i]; o.Spec.For == m.Spec.For && o.Spec.Pool == m.Spec.Pool && o.Spec.Zone == m.Spec.Zone && o.Status.Phase == v1alpha1.MachineLaunched {
			s.Got++
		}
	}
	i := slices.IndexFunc(list, func(o v1alpha1.Stockout) bool {
		return o.Zone == s.Zone && o.CapacityType == s.CapacityType && o.Reservation == s.Reservation
	})
	if i >= 0 && v.now.Before(list[i].Until.Time) {
		list[i].Got = max(list[i].Got, s.Got)
		return list
	}
	if i >= 0 {
		s.Failures = list[i].Failures + 1
		list = slices.Delete(list, i, i+1)
	}
	wait := v.backoff
	for range min(s.Failures-1, 20) {
		wait = min(2*wait, maxBackoff)
	}
	s.Until = metav1.NewTime(v.now.Add(wait).Truncate(time.Second).Add(time.Second))
	return append(list, s)
}

// mostShortages is how many gangs a pool's status names.
const mostShortages = 32

// tellPools writes what is remembered of pools where that changed.
func (c *controller) tellPools(ctx context.Context, v *view, w *launch.World, d launch.Decisions) error {
	count := make(map[string]int32)
	for _, m := range w.Machines {
		if m.State != launch.Failed {
			count[m.Pool]++
		}
	}
	short := make(map[string][]v1alpha1.Shortage)
	for _, x := range d.Of(launch.Wait) {
		if len(short[x.Pool]) < mostShortages {
			short[x.Pool] = append(short[x.Pool], v1alpha1.Shortage{Workload: x.For, Need: int32(x.Need), Have: int32(x.Have), Because: x.Error})
		}
	}
	for _, name := range v.names() {
		p := v.pools[name]
		if p.Spec.Launch == nil {
			continue
		}
		next := *p.Status.DeepCopy()
		next.Machines, next.Stockouts, next.Shortages = count[name], v.stockouts(p), short[name]
		if equality.Semantic.DeepEqual(next, p.Status) {
			continue
		}
		if err := c.SetPool(ctx, name, next); err != nil {
			return fmt.Errorf("status of pool %s: %w", name, err)
		}
	}
	return nil
}
