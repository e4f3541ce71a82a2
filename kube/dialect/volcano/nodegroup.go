package volcano

import (
	"slices"

	"github.com/berth-dev/berth/kube/dialect"
)

// Node groups, as Volcano's plugin nodegroup has them (pkg/scheduler/plugins/nodegroup/nodegroup.go of v1.16.0-alpha.1, predicate and
// score): a queue with an affinity is for the nodes of the groups that it names. Groups that it is averse to are out, unless it only
// prefers others to them. Nodes of no group are not for it. A queue without an affinity has that of the nearest queue above it with one;
// where none has, it is for all nodes, where the plugin would keep it off nodes of a group.

// nodeGroupKey is the label with a node's group.
const nodeGroupKey = "volcano.sh/nodegroup-name"

type affinity struct {
	For     groups `json:"nodeGroupAffinity"`
	Against groups `json:"nodeGroupAntiAffinity"`
}

type groups struct {
	Required  []string `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	Preferred []string `json:"preferredDuringSchedulingIgnoredDuringExecution"`
}

const (
	// maxGroups bounds the node groups that one queue is for.
	maxGroups = 64
	// maxDepth is how many queues are above each other at most.
	maxDepth = 16
)

// says is whether it says anything.
func (a *affinity) says() bool {
	return a != nil && len(a.For.Required)+len(a.For.Preferred)+len(a.Against.Required)+len(a.Against.Preferred) > 0
}

// flavors are the groups of nodes that will do, those first that are liked best.
func (a *affinity) flavors() (out []dialect.Flavor) {
	var seen []string
	for _, list := range []struct {
		names  []string
		prefer int32
	}{{a.For.Required, 100}, {a.For.Preferred, 50}, {a.Against.Preferred, 0}} {
		for _, name := range list.names {
			averse := slices.Contains(a.Against.Preferred, name)
			if name == "" || slices.Contains(seen, name) || slices.Contains(a.Against.Required, name) && !averse || len(seen) == maxGroups {
				continue
			}
			f := dialect.Flavor{Labels: map[string]string{nodeGroupKey: name}, Prefer: list.prefer}
			if averse {
				f.Prefer = 0
			}
			seen, out = append(seen, name), append(out, f)
		}
	}
	return out
}

// nodeGroups has the pod on nodes of the groups that its queue is for.
func (g *grouping) nodeGroups(queue string, out *dialect.Terms) {
	for name, depth := queue, 0; name != "" && depth < maxDepth; depth++ {
		o := g.world.Object(Queues, "", name)
		if o == nil {
			return
		}
		spec, _ := o.Value.(queueSpec)
		if spec.Affinity.says() {
			if out.Flavors = spec.Affinity.flavors(); len(out.Flavors) == 0 {
				out.Awaits = "Queue " + name + ": its affinity names no node group that its workloads may have"
			}
			return
		}
		name = spec.Parent
	}
}
