package gpustack

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Labels of nodes have authors: discovery pods, and controllers that judge a node. A label that is missing may be missing because of them.

// LabelWriter is who writes a label, and why a node does not have it.
type LabelWriter struct {
	Says      string // a clause
	Evidence  facts.Evidence
	Advice    string
	Withholds bool // it has looked at the node and found against it, so that work which asks for the label must not run there
}

// WriterOf is why nodes do not have the label, as far as its writer is known and unwell, or says so; nil otherwise.
func WriterOf(f *facts.Facts, key string) *LabelWriter {
	if g, p := unlabelled(f, key); g != nil {
		who := "GPU Feature Discovery"
		if roleOfPod(p.Labels, &p.Spec) == RoleFeatures {
			who = "Node Feature Discovery"
		}
		return &LabelWriter{
			Says:     fmt.Sprintf("%s writes it, and its pod %s on node %s is %s", who, p.Name, g.Name, Trouble(p)),
			Evidence: facts.Evidence{Object: facts.RefTo(p).In(), Field: "status", Value: Trouble(p)},
			Advice:   fmt.Sprintf("Have %s repaired: see the log of pod %s of namespace %s.", who, p.Name, p.Namespace),
		}
	}
	return judged(f, key)
}

// unlabelled is a node with GPUs that does not have the label, which a discovery writes, and the pod of it there that is not ready; nil: there is none,
// or it has nothing to do with it.
func unlabelled(f *facts.Facts, key string) (*Node, *corev1.Pod) {
	role := RoleFeatures
	switch {
	case strings.HasPrefix(key, "feature.node.kubernetes.io/"), key == LabelPresent, strings.HasPrefix(key, LabelDeploy):
	case strings.HasPrefix(key, "nvidia.com/"):
		role = RoleDiscovery
	default:
		return nil, nil
	}
	all := Of(f).Nodes
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g := all[name]
		if _, has := g.Labels[key]; has || len(g.Ready(role)) > 0 {
			continue
		}
		if p := g.Unready(role); p != nil {
			return g, p
		}
	}
	return nil, nil
}

// judged is for a label of an API group, objects of which are about nodes without it and report a fault of them.
func judged(f *facts.Facts, key string) *LabelWriter {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return nil
	}
	for _, name := range SortedKeys(nodeNames(f)) {
		for _, w := range ReportsOn(f, f.NodeNamed(name)) {
			group := w.Object.GroupVersionKind().Group
			if !w.Fault || group == "" || domain != group && !strings.HasSuffix(domain, "."+group) && !strings.HasSuffix(group, "."+domain) {
				continue
			}
			return &LabelWriter{
				Says:     fmt.Sprintf("%s says of node %s that %s", w.Ref(), name, w.Says),
				Evidence: facts.Evidence{Object: w.Ref().In(), Field: w.Field, Value: w.Says},
				Advice:   fmt.Sprintf("Look at %s and at the controller that reports it: the label comes with its verdict.", w.Ref()), Withholds: true,
			}
		}
	}
	return nil
}

func nodeNames(f *facts.Facts) map[string]string {
	out := make(map[string]string, len(f.Nodes))
	for _, n := range f.Nodes {
		out[n.Name] = n.Name
	}
	return out
}

// Undetected says whether nothing has found the node's hardware yet, so that the GPU Operator, which goes by that, has said of no program that it is to run
// there: a label for one of them does not bring the others.
func Undetected(f *facts.Facts, n *corev1.Node) bool {
	return len(Policies(f)) > 0 && driverByOperator(f) && !operatorLabelled(n) || !operatorLabelled(n) && Of(f).Nodes[n.Name] != nil && Of(f).Nodes[n.Name].Unready(RoleFeatures) != nil
}
