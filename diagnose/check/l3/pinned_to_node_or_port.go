package l3

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
)

var pinnedToNodeOrPortCheck = check.Check{
	Cause: "pinned-to-node-or-port", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 15,
	Title:   "The pod asks for one node, or for a port of the node",
	Meaning: "The pod may run on one node only, by name, or needs a port of the node itself that others have taken wherever it could run.",
	Remedy:  "Do not name the node, or use another port or none.",
	Not:     "The cluster is full: other nodes may have room.",
	Find:    pinned,
}

func pinned(c *check.Case) []check.Finding {
	if place.ByDaemonSet(c.Pod) { // its pods are pinned by design
		return nil
	}
	if f := pinnedToGone(c); f != nil {
		return []check.Finding{*f}
	}
	if c.Fit == nil {
		return pinnedAsSaid(c)
	}
	f := place.Stuck(c)
	if f == nil {
		return nil
	}
	var out []check.Finding
	if p := pinnedToName(c, f); p != nil {
		out = append(out, *p)
	}
	if p := portTaken(c, f); p != nil {
		out = append(out, *p)
	}
	return out
}

// pinnedToGone is of a pod that was given its node by name: no scheduler looks at it, and no kubelet either.
func pinnedToGone(c *check.Case) *check.Finding {
	name := c.Pod.Spec.NodeName
	if name == "" || !c.Sees("nodes", "") || c.NodeNamed(name) != nil || c.State != facts.Starting && c.State != facts.Absent {
		return nil
	}
	scheduled := slices.ContainsFunc(c.Pod.Status.Conditions, func(k corev1.PodCondition) bool { return k.Type == corev1.PodScheduled })
	if scheduled && (place.Written(c) == c.Pod || place.Written(c).Spec.NodeName == "") {
		return nil // a scheduler chose it while it was there
	}
	f := &check.Finding{
		Message:  fmt.Sprintf("spec.nodeName is %s, and there is no such node", name),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.nodeName", Value: name}},
	}
	if place.Written(c).Spec.NodeName == name {
		f.Edits = []edit.Edit{{Side: edit.Workload, Cost: edit.CostWord, Text: "take spec.nodeName out, so that a scheduler finds a node", Ops: []edit.Op{{Op: "remove", Path: "/spec/nodeName"}}}}
	}
	return f
}

// pin is the node that the pod names, and how to take that back.
type pin struct {
	node  string
	field string
	ops   []edit.Op
	// to asks for another node in the same way; nil where the author did not write the pin.
	to func(node string) edit.Op
}

// pinOf finds a node's name in the selector or the only affinity term.
func pinOf(c *check.Case) (pin, bool) {
	s := &c.Pod.Spec
	own := &place.Written(c).Spec
	if v := s.NodeSelector[corev1.LabelHostname]; v != "" {
		p := pin{node: v, field: fmt.Sprintf("spec.nodeSelector[%q]", corev1.LabelHostname)}
		if own.NodeSelector[corev1.LabelHostname] == v {
			path := edit.Pointer("spec", "nodeSelector", corev1.LabelHostname)
			p.ops = []edit.Op{{Op: "remove", Path: path}}
			p.to = func(node string) edit.Op { return edit.Op{Op: "replace", Path: path, Value: node} }
		}
		return p, true
	}
	all := place.Terms(s)
	if len(all) != 1 {
		return pin{}, false
	}
	for i, e := range all[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			p := pin{node: e.Values[0], field: fmt.Sprintf("spec.affinity.nodeAffinity…matchExpressions[%d]", i)}
			if len(place.Terms(own)) == 1 {
				p.ops = []edit.Op{place.WithoutExpression(c, 0, i)}
				p.to = func(node string) edit.Op {
					return edit.Op{Op: "replace", Path: fmt.Sprintf("%s/nodeSelectorTerms/0/matchExpressions/%d/values/0", place.AffinityPath, i), Value: node}
				}
			}
			return p, true
		}
	}
	for i, e := range all[0].MatchFields {
		if e.Key == "metadata.name" && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			p := pin{node: e.Values[0], field: fmt.Sprintf("spec.affinity.nodeAffinity…matchFields[%d]", i)}
			if len(place.Terms(own)) == 1 && len(all[0].MatchFields)+len(all[0].MatchExpressions) == 1 {
				p.ops = []edit.Op{{Op: "remove", Path: place.AffinityPath}}
				p.to = func(node string) edit.Op {
					return edit.Op{Op: "replace", Path: fmt.Sprintf("%s/nodeSelectorTerms/0/matchFields/%d/values/0", place.AffinityPath, i), Value: node}
				}
			}
			return p, true
		}
	}
	return pin{}, false
}

// pinnedToName is of a pod that asks for a node by its name.
func pinnedToName(c *check.Case, f *check.Fit) *check.Finding {
	p, ok := pinOf(c)
	if !ok {
		return nil
	}
	out := &check.Finding{Fit: true, Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: p.field, Value: p.node}}}
	out.Message = fmt.Sprintf("the pod may run on node %s alone, and there is no such node", p.node)
	at := slices.IndexFunc(f.Nodes, func(n check.NodeFit) bool { return n.Name == p.node || n.Labels[corev1.LabelHostname] == p.node })
	if at >= 0 {
		out.Message = fmt.Sprintf("the pod may run on node %s alone, which has no place for it", p.node)
		if s := f.Nodes[at].Short; len(s) > 0 {
			out.Message = fmt.Sprintf("the pod may run on node %s alone, which is short of %s by %s", p.node, s[0].Resource, why.Quantity(s[0].Resource, s[0].By))
		}
	}
	if at < 0 {
		if near, ok := spelling.Closest(p.node, hostnames(f)); ok {
			out.Message += "; " + near + " is one"
			if p.to != nil {
				out.Edits = []edit.Edit{{Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("ask for node %s instead of %s", near, p.node), Ops: []edit.Op{p.to(near)}}}
			}
		}
	}
	if p.ops != nil {
		free := edit.Edit{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("do not ask for node %s by name", p.node), Ops: p.ops}
		out.Probe, out.Edits = &free, append(out.Edits, free) // the node that was meant may be full, and the name wrong all the same
	}
	return out
}

// hostnames are the names under which nodes can be asked for.
func hostnames(f *check.Fit) []string {
	var out []string
	for i := range f.Nodes {
		out = append(out, cmp.Or(f.Nodes[i].Labels[corev1.LabelHostname], f.Nodes[i].Name))
	}
	return out
}

// portTaken is of a pod that asks for a port of the node which others have on every node that is open to it.
func portTaken(c *check.Case, f *check.Fit) *check.Finding {
	taken := make(map[string][]string)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		for _, r := range n.Removed {
			if r.Kind == why.ByPort && len(n.Removed) == 1 && len(n.ExcludedBy) == 0 {
				taken[r.Detail] = append(taken[r.Detail], n.Name)
			}
		}
		if n.Open() && len(n.Short) == 0 {
			return nil
		}
	}
	for _, at := range hostPorts(c) {
		for _, port := range slices.Sorted(maps.Keys(taken)) {
			if !strings.Contains(port, fmt.Sprintf(":%d/", at.port)) {
				continue
			}
			nodes := taken[port]
			slices.Sort(nodes)
			none, next := otherPort(c, at)
			found := &check.Finding{
				Fit: true, Probe: &next,
				Message:  fmt.Sprintf("host port %d is taken on %s", at.port, wording.AtMost(3, nodes)),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%d].ports[%d].hostPort", at.container, at.index), Value: fmt.Sprint(at.port)}},
			}
			if !c.Pod.Spec.HostNetwork {
				found.Edits = append(found.Edits, none)
			}
			own := func(p *corev1.Pod) bool { return slices.Contains(nodes, p.Spec.NodeName) && asksPort(p, at.port) }
			if r := rolloutBy(c, own); r != nil && len(r.old) >= len(nodes) {
				r.told(c, found, "the port")
				return found
			}
			if crowded(c) {
				found.Advice = "Run no more of these pods than there are nodes for them: a node has each port once. Or do without the host port."
			} else {
				found.Edits = append(found.Edits, next)
			}
			return found
		}
	}
	return nil
}

func asksPort(p *corev1.Pod, port int32) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(k corev1.Container) bool {
		return slices.ContainsFunc(k.Ports, func(at corev1.ContainerPort) bool { return at.HostPort == port })
	})
}

// hostPort is a port of the node that a container asks for.
type hostPort struct {
	container, index int
	port             int32
}

func hostPorts(c *check.Case) []hostPort {
	var out []hostPort
	for i := range place.Written(c).Spec.Containers {
		for j, p := range place.Written(c).Spec.Containers[i].Ports {
			if p.HostPort > 0 {
				out = append(out, hostPort{i, j, p.HostPort})
			}
		}
	}
	return out
}

// otherPort asks for no port of the node, and for one that is free. Where the pod is on the node's own network, its ports are the
// node's, and another one is all there is.
func otherPort(c *check.Case, at hostPort) (none, e edit.Edit) {
	path := edit.Pointer("spec", "containers", strconv.Itoa(at.container), "ports", strconv.Itoa(at.index))
	used := make(map[int32]bool)
	for _, p := range c.Pods {
		for i := range p.Spec.Containers {
			for _, x := range p.Spec.Containers[i].Ports {
				used[x.HostPort] = true
			}
		}
	}
	next := at.port + 1
	for used[next] && next < 65535 {
		next++
	}
	e = edit.Edit{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("use host port %d in place of %d", next, at.port), Ops: []edit.Op{{Op: "replace", Path: path + "/hostPort", Value: next}}}
	if c.Pod.Spec.HostNetwork {
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: path + "/containerPort", Value: next})
		e.Assumes = "the program can be told to listen there"
	}
	none = edit.Edit{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("do not ask for host port %d: pods have addresses of their own", at.port), Ops: []edit.Op{{Op: "remove", Path: path + "/hostPort"}}}
	return none, e
}

// crowded says whether the pods of one template are more than the nodes that could have them: all of them would ask for the next port
// too, and a node has each port once.
func crowded(c *check.Case) bool {
	pods, nodes := 1, 0
	switch m := c.Owner().(type) {
	case *appsv1.ReplicaSet:
		pods = int(ptr.Deref(m.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		pods = int(ptr.Deref(m.Spec.Replicas, 1))
	case *batchv1.Job:
		pods = int(ptr.Deref(m.Spec.Parallelism, 1))
	}
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if n.Empty > 0 && len(n.ExcludedBy) == 0 && !slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return r.Kind != why.ByPort }) {
			nodes++
		}
	}
	return pods > nodes
}

// pinnedAsSaid goes by the scheduler's words.
func pinnedAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok || c.State != facts.Pending || len(s.Lacks()) > 0 && s.Evicting.Nobody > 0 {
		return nil
	}
	if n := s.Count("node(s) didn't have free ports for the requested pod ports"); n > 0 {
		return []check.Finding{{Message: fmt.Sprintf("the host port that the pod asks for is taken on %s", wording.Number(n, "node")), Evidence: place.SaidEvidence(c)}}
	}
	if p, ok := pinOf(c); ok && s.Count("node(s) didn't match") > 0 {
		return []check.Finding{{Message: fmt.Sprintf("the pod may run on node %s alone, and that node does not take it or is not there", p.node), Evidence: place.SaidEvidence(c)}}
	}
	return nil
}
