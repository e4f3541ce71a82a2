package oracle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// world is a snapshot at a moment, and where each pod is. Pods ask for their one of Pods like for all else,
// and a pod without a gang, or another scheduler's, is its own.
type world struct {
	engine.Snapshot
	cfg     engine.Config
	gpu     string
	now     time.Time
	node    map[string]engine.Node
	pod     map[string]engine.Pod
	gang    map[string]engine.Gang
	model   string          // that GPUs of what is being tried are to be of
	at, was map[string]spot // by pod: now, and before what is being tried; absent: nowhere
	plan    *engine.Plan    // that is checked; nil: none
	lax     bool            // rules between pods do not count
}

// spot is a pod's place. Devices is nil where they are not known.
type spot struct {
	node    string
	devices []string
}

func newWorld(snap engine.Snapshot, cfg engine.Config, now time.Time) *world {
	w := &world{Snapshot: snap, cfg: cfg, gpu: cmp.Or(cfg.GPU, "nvidia.com/gpu"), now: now, node: map[string]engine.Node{},
		pod: map[string]engine.Pod{}, gang: map[string]engine.Gang{}, at: map[string]spot{}, was: map[string]spot{}}
	w.Pods = slices.Clone(snap.Pods)
	for i, p := range w.Pods {
		p.Requests = append(slices.Clip(p.Requests), engine.Amount{Resource: engine.Pods, Value: 1})
		if p.Gang == "" && !p.Foreign {
			w.gang[p.Key] = engine.Gang{Key: p.Key, Queue: p.Queue, User: p.User, Priority: p.Priority, Created: p.Created, Terms: p.Terms}
		}
		if p.Gang == "" || p.Foreign {
			p.Gang = p.Key
		}
		if p.Node != "" {
			w.at[p.Key], w.was[p.Key] = spot{p.Node, p.Devices}, spot{p.Node, p.Devices}
		}
		w.Pods[i], w.pod[p.Key] = p, p
	}
	w.Queues = slices.Clone(snap.Queues)
	for i := range w.Queues {
		q := &w.Queues[i]
		q.Quota, q.Limits, q.Lend, q.UserLimits = w.milli(q.Quota), w.milli(q.Limits), w.milli(q.Lend), w.milli(q.UserLimits)
	}
	for _, n := range snap.Nodes {
		w.node[n.Name] = n
	}
	for _, g := range snap.Gangs {
		w.gang[g.Key] = g
	}
	for _, a := range filter(snap.Assumptions, w.live) {
		w.at[a.Pod], w.was[a.Pod] = spot{a.Node, a.Devices}, spot{a.Node, a.Devices}
	}
	return w
}

// milli is the amounts of a queue with GPUs in thousandths, as this package counts them in queues.
func (w *world) milli(rs engine.Resources) engine.Resources {
	out := slices.Clone(rs)
	for i, a := range out {
		if a.Resource == w.gpu || strings.HasPrefix(a.Resource, w.gpu+"@") || strings.HasPrefix(a.Resource, w.gpu+"#") {
			out[i].Value, out[i].Milli = a.Value*1000+a.Milli, 0
		}
	}
	return out
}

// live, counts and stands say whether a piece of memory still means something.
func (w *world) live(a engine.Assumption) bool {
	p, known := w.pod[a.Pod]
	return known && p.Node == "" && !p.Terminating && !p.Foreign && p.UID == a.UID && w.now.Before(a.Until)
}

func (w *world) counts(r engine.Refusal) bool {
	p, known := w.pod[r.Pod]
	return known && (r.UID == "" || p.UID == r.UID) && w.now.Before(r.Until)
}

func (w *world) stands(h engine.Hold) bool {
	return w.now.Before(h.Until) && (h.Coming || len(w.waiting(h.Gang)) > 0)
}

// place names a hold.
func place(h engine.Hold) engine.Ref { return ref(engine.KindHold, h.Gang+"@"+h.Node) }

// claimed are those of the holds that the gang may use: its own and, of a pod by itself, the first that is for what its
// owner makes, unless one of its own comes before.
func (w *world) claimed(holds []engine.Hold, gang string) map[engine.Ref]bool {
	out := map[engine.Ref]bool{}
	owner := ""
	if p := w.pod[gang]; p.Gang == gang && p.Owner != "" {
		owner = p.Owner
	}
	holds = slices.Clone(holds)
	slices.SortFunc(holds, func(a, b engine.Hold) int { return strings.Compare(place(a).Key, place(b).Key) })
	for _, h := range holds {
		if h.Gang == gang || h.Gang == owner && len(out) == 0 && w.stands(h) {
			out[place(h)] = true
		}
	}
	return out
}

// domain is the node's domain of a level, named by the path to it, and whether it is in one: it has the
// level's label. A wider label that it does not have is an empty step of the path.
func (w *world) domain(n engine.Node, level string) (string, bool) {
	var path []string
	for _, l := range w.cfg.Levels {
		v, ok := n.Labels[l.Label]
		if path = append(path, v); l.Name == level || l.Label == level {
			return strings.Join(path, "/"), ok
		}
	}
	if level == engine.NodeLevel {
		return n.Name, n.Name != ""
	}
	v, ok := n.Labels[level]
	return v, ok
}

// members is the living members of a group and of those below it in order of rank; nobody else's pods.
func (w *world) members(g engine.Gang, group engine.Group) []engine.Pod {
	out := filter(w.Pods, func(p engine.Pod) bool {
		return p.Gang == g.Key && !w.leaving(p) && !p.Foreign && inside(g, p.Subgroup, group.Name)
	})
	slices.SortFunc(out, func(a, b engine.Pod) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Key, b.Key)) })
	return out
}

// inside says whether a subgroup is the group or below it; all are in the gang's own, "".
func inside(g engine.Gang, subgroup, group string) bool {
	return subgroup == group || group == "" ||
		some(g.Groups, func(c engine.Group) bool { return c.Name == subgroup && inside(g, c.Parent, group) && c.Parent != "" })
}

// waiting, up and fresh are the members of a gang that are nowhere, and those of the pods that are somewhere,
// or are only being tried there.
func (w *world) waiting(gang string) []engine.Pod {
	return filter(w.members(engine.Gang{Key: gang}, engine.Group{}), func(p engine.Pod) bool { return w.at[p.Key].node == "" })
}

func (w *world) up(pods []engine.Pod) []engine.Pod {
	return filter(pods, func(p engine.Pod) bool { return w.at[p.Key].node != "" })
}

func (w *world) fresh(pods []engine.Pod) []engine.Pod {
	return filter(w.up(pods), func(p engine.Pod) bool { return w.was[p.Key].node == "" })
}

func amount(rs engine.Resources, resource string) (total int64) {
	for _, a := range rs {
		if a.Resource == resource {
			total += a.Value
		}
	}
	return total
}

func sum(pods []engine.Pod, resource string) (total int64) {
	for _, p := range pods {
		total += amount(p.Requests, resource)
	}
	return total
}

func names(devices []engine.Device) (ids []string) {
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}

func some[T any](list []T, is func(T) bool) bool { return slices.ContainsFunc(list, is) }

func filter[T any](list []T, keep func(T) bool) (out []T) {
	for _, x := range list {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}
