package place

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// pools are Berth's, in order of name.
type pools []*v1alpha1.Pool

// Pools are Berth's pools, completed with their defaults, in order of name. They are not written to.
func Pools(f *facts.Facts) []*v1alpha1.Pool { return facts.Derive(f, readPools) }

func readPools(f *facts.Facts) (out pools) {
	for _, u := range f.Foreign["Pool.berth.dev"] {
		p := &v1alpha1.Pool{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p) != nil {
			continue // of another version
		}
		v1alpha1.Default(p)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.Pool) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// PoolSize is how many nodes the pool asks for.
func PoolSize(p *v1alpha1.Pool) int {
	if len(p.Spec.NodeNames) > 0 || p.Spec.Nodes == nil {
		return len(p.Spec.NodeNames)
	}
	return int(*p.Spec.Nodes)
}

// PoolOfNode is the pool that asks for a node of this name, and the node's place in it; nil: none does.
func PoolOfNode(pools []*v1alpha1.Pool, n *corev1.Node) (*v1alpha1.Pool, int) {
	for _, p := range pools {
		for i := range PoolSize(p) {
			if p.NodeName(i) == n.Name {
				return p, i
			}
		}
	}
	return nil, 0
}

// PoolPlace is a node's place in a pool.
type PoolPlace struct {
	Pool  *v1alpha1.Pool
	Index int
}

// PoolsByNode are the pools that ask for nodes, by the nodes' names.
func PoolsByNode(f *facts.Facts) map[string]PoolPlace {
	out := make(map[string]PoolPlace)
	for _, p := range Pools(f) {
		for i := range PoolSize(p) {
			if name := p.NodeName(i); out[name].Pool == nil {
				out[name] = PoolPlace{p, i}
			}
		}
	}
	return out
}

// pooled says whether a pool would give its nodes the label.
func pooled(f *facts.Facts, n Need) bool {
	return slices.ContainsFunc(Pools(f), func(p *v1alpha1.Pool) bool { return n.Met(p.NodeLabels(0)) })
}

// PoolNamed is Berth's pool of the name; nil: there is none.
func PoolNamed(f *facts.Facts, name string) *v1alpha1.Pool {
	all := Pools(f)
	if i := slices.IndexFunc(all, func(p *v1alpha1.Pool) bool { return p.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// PlacePatch is Berth's pool that all the nodes are of, and the merge patch by which it gives them the label of a zone or
// region. It is false for other labels, and for nodes of no pool or of several.
func PlacePatch(f *facts.Facts, nodes []*corev1.Node, key, value string) (pool facts.Object, patch any, ok bool) {
	field := map[string]string{v1alpha1.LabelZone: "zone", v1alpha1.LabelRegion: "region"}[key]
	all := Pools(f)
	var of *v1alpha1.Pool
	for _, n := range nodes {
		p, _ := PoolOfNode(all, n)
		if p == nil || of != nil && of.Name != p.Name {
			return nil, nil, false
		}
		of = p
	}
	if field == "" || of == nil {
		return nil, nil, false
	}
	pool = f.ForeignNamed("Pool.berth.dev", "", of.Name)
	return pool, map[string]any{"spec": map[string]any{"topology": map[string]any{field: value}}}, true
}
