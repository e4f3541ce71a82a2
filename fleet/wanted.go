package fleet

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/file"
)

// want is one node that a pool asks for, or that somebody made by hand; see adopt.
type want struct {
	pool   *v1alpha1.Pool // defaulted and valid; shared, never written
	index  int            // which node of the pool, from 0
	byHand bool           // the node belongs to its author: it is neither made nor deleted here
	named  string         // of a Machine: its name; "": the pool decides
	whom   string         // of a Machine: the workload that it was launched for; "": none
	taints []corev1.Taint // of a Machine: what its kubelet registers with, beside the pool's
}

func (w want) name() string {
	if w.named != "" {
		return w.named
	}
	return w.pool.NodeName(w.index)
}

// same says that two wants ask for the same node of the same version of the same pool.
func (w want) same(other want) bool {
	return w.index == other.index && w.pool.UID == other.pool.UID && w.pool.Generation == other.pool.Generation
}

// wanted lists the nodes that the pools ask for, in order of pool and index, and what is wrong
// with each pool that cannot be carried out as it is written. A node name that two pools ask for
// goes to the pool whose name sorts first; a pool that is not valid asks for nothing.
func wanted(pools []*v1alpha1.Pool) (nodes []want, problems map[string]string) {
	problems = map[string]string{}
	owner := map[string]string{}
	for _, pool := range defaulted(pools) {
		if errs := file.Check(pool); len(errs) > 0 {
			problems[pool.Name] = errs.ToAggregate().Error()
			continue
		}
		for i := range int(*pool.Spec.Nodes) {
			w := want{pool: pool, index: i}
			other, taken := owner[w.name()]
			switch {
			case taken:
				problems[pool.Name] = fmt.Sprintf("node %s belongs to pool %s", w.name(), other)
			case len(nodes) == maxNodes:
				problems[pool.Name] = fmt.Sprintf("the fleet has addresses for %d nodes, and none for %s", maxNodes, w.name())
			default:
				owner[w.name()] = pool.Name
				nodes = append(nodes, w)
			}
		}
	}
	return nodes, problems
}

// defaulted copies the pools with everything filled in, sorted by name.
func defaulted(pools []*v1alpha1.Pool) []*v1alpha1.Pool {
	out := make([]*v1alpha1.Pool, len(pools))
	for i, p := range pools {
		out[i] = withDefaults(p)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
