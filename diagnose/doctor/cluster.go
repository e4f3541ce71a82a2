package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine"
)

// Cluster is what the items look at: the facts, and what several items derive from them. It is made once, and but for what is counted on demand not changed.
type Cluster struct {
	*facts.Facts
	stack *gpustack.Stack
	// gpus are the nodes that have GPUs of any vendor, or should have, by name.
	gpus   []*gpuNode
	byName map[string]*gpuNode
	groups []group // of two or more nodes
	// pods are those that ask for GPUs and have not ended, by namespace and name.
	pods    []gpuPod
	samples []Sample
	devices []measured // by node and GPU
	report  func(string) engine.Report
	counted []Capacity                      // by capacities; nil: not yet
	sliced  map[string]bool                 // nodes whose GPUs are offered in ResourceSlices
	plugins map[*vendor][]*appsv1.DaemonSet // of vendors but NVIDIA, whose stack is known in detail
}

// byClaim says whether the node's GPUs are offered in ResourceSlices.
func (c *Cluster) byClaim(n *gpuNode) bool { return c.sliced[n.Name] }

// gpuNode is a node with what is known of its GPUs.
type gpuNode struct {
	*corev1.Node
	vendors []*vendor // of GPUs that it offers or is labelled with
	other   []string  // resources of vendors that are not known here, sorted
	state   gpustack.NodeState
	held    map[string]int64 // GPUs that pods on it ask for, by resource
}

// gpuPod is a pod that asks for GPUs.
type gpuPod struct {
	*corev1.Pod
	asks map[string]int64 // by resource
}

func newCluster(in Input) *Cluster {
	c := &Cluster{Facts: in.Facts, stack: gpustack.Of(in.Facts), samples: in.Samples, report: in.Report, byName: make(map[string]*gpuNode), sliced: make(map[string]bool), plugins: make(map[*vendor][]*appsv1.DaemonSet)}
	for _, s := range in.Facts.ResourceSlices {
		if slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool { return isGPUDevice(s.Spec.Driver, &d) }) {
			c.sliced[ptr.Deref(s.Spec.NodeName, "")] = true
		}
	}
	for _, d := range in.Facts.DaemonSets {
		for _, v := range vendors {
			if v.runs(d.Spec.Template.Labels, &d.Spec.Template.Spec) {
				c.plugins[v] = append(c.plugins[v], d)
			}
		}
	}
	for _, p := range in.Facts.Pods {
		if asks := gpusAsked(p); len(asks) > 0 && !facts.Ended(p) {
			c.pods = append(c.pods, gpuPod{p, asks})
		}
	}
	slices.SortFunc(c.pods, func(a, b gpuPod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, n := range in.Facts.Nodes {
		if g := c.describe(n); g != nil {
			c.gpus, c.byName[n.Name] = append(c.gpus, g), g
		}
	}
	slices.SortFunc(c.gpus, func(a, b *gpuNode) int { return strings.Compare(a.Name, b.Name) })
	for i := range c.pods {
		p := &c.pods[i]
		if g := c.byName[p.Spec.NodeName]; g != nil {
			//archtest:any-order each amount is added to once
			for name, n := range p.asks {
				g.held[name] += n
			}
		}
	}
	//archtest:any-order each list is sorted by itself
	for _, sets := range c.plugins {
		slices.SortFunc(sets, func(a, b *appsv1.DaemonSet) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	c.groups = groupsOf(c.gpus)
	c.devices = c.measure()
	return c
}

// gpusAsked is how many GPUs the pod asks for, by resource; nil where none.
func gpusAsked(p *corev1.Pod) map[string]int64 {
	var out map[string]int64
	for _, name := range facts.ExtendedOf(p) {
		if _, ok := gpuResource(name); !ok {
			continue
		}
		q := podspec.Requests(p)[corev1.ResourceName(name)]
		if q.Value() <= 0 {
			continue
		}
		if out == nil {
			out = make(map[string]int64)
		}
		out[name] = q.Value()
	}
	return out
}

// describe is the node with its GPUs; nil where it has none.
func (c *Cluster) describe(n *corev1.Node) *gpuNode {
	g := &gpuNode{Node: n, state: c.stack.States[n.Name], held: make(map[string]int64)}
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		//archtest:any-order vendors are looked up again below, and other is sorted
		for name, q := range list {
			v, ok := gpuResource(string(name))
			switch {
			case !ok || q.IsZero():
			case v == nil:
				if !slices.Contains(g.other, string(name)) {
					g.other = append(g.other, string(name))
				}
			case !slices.Contains(g.vendors, v):
				g.vendors = append(g.vendors, v)
			}
		}
	}
	for _, v := range vendors {
		if !slices.Contains(g.vendors, v) && (v == nvidia && c.stack.Nodes[n.Name] != nil || v != nvidia && v.has(n)) {
			g.vendors = append(g.vendors, v)
		}
	}
	if len(g.vendors) == 0 && len(g.other) == 0 {
		return nil
	}
	slices.SortFunc(g.vendors, func(a, b *vendor) int { return strings.Compare(a.name, b.name) })
	slices.Sort(g.other)
	return g
}

// resources are the names under which the node counts GPUs, sorted.
func (g *gpuNode) resources() []string {
	var out []string
	//archtest:any-order sorted below
	for name := range g.Status.Capacity {
		if _, ok := gpuResource(string(name)); ok {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

func (g *gpuNode) capacity(resource string) int64 {
	q := g.Status.Capacity[corev1.ResourceName(resource)]
	return q.Value()
}

func (g *gpuNode) allocatable(resource string) int64 {
	q := g.Status.Allocatable[corev1.ResourceName(resource)]
	return q.Value()
}

// offered is how many units of the vendor's resources the node has, whole and in parts: what the labels count.
func (g *gpuNode) offered(v *vendor) (units int64, parts bool) {
	//archtest:any-order it only adds up
	for name, q := range g.Status.Capacity {
		if v.owns(string(name)) && !q.IsZero() {
			units += q.Value()
			parts = parts || v.parts(string(name)) && string(name) != "nvidia.com/gpu.shared"
		}
	}
	return units, parts
}

// product is what the node's labels call its GPUs.
func (g *gpuNode) product() string {
	for _, v := range g.vendors {
		if s := g.Labels[v.product]; v.product != "" && s != "" {
			return s
		}
	}
	return ""
}

// pool is what its maker calls the node's pool; "": unknown.
func (g *gpuNode) pool() (key, name string) {
	for _, key := range gpustack.PoolLabels {
		if s := g.Labels[key]; s != "" {
			return key, s
		}
	}
	return "", ""
}

// group is nodes that should be alike: of one pool and one machine type.
type group struct {
	name  string // for sentences: "pool a100"
	typed bool   // the nodes say that they are of one machine type
	nodes []*gpuNode
}

func groupsOf(nodes []*gpuNode) []group {
	at := make(map[string]int)
	var out []group
	for _, g := range nodes {
		_, pool := g.pool()
		kind := g.Labels[corev1.LabelInstanceTypeStable]
		name := "pool " + pool
		switch {
		case pool == "" && kind != "":
			name = "instance type " + kind
		case pool == "" && g.product() != "":
			name = "nodes with " + g.product()
		case pool == "":
			continue
		}
		key := name + "\x00" + kind
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, group{name: name, typed: kind != ""})
		}
		out[i].nodes = append(out[i].nodes, g)
	}
	return slices.DeleteFunc(out, func(g group) bool { return len(g.nodes) < 2 })
}

// most is the value that more than half of the nodes have, and how many do; "" where none is so common. Nodes of which
// value says "" do not vote.
func (g *group) most(value func(*gpuNode) string) (string, int) {
	votes, voters := make(map[string]int), 0
	for _, n := range g.nodes {
		if v := value(n); v != "" {
			votes[v]++
			voters++
		}
	}
	//archtest:any-order at most one has more than half
	for v, n := range votes {
		if 2*n > voters {
			return v, n
		}
	}
	return "", 0
}

// young says whether the node may still be on its way to being fit for work.
func (c *Cluster) young(n *corev1.Node) bool {
	age := c.At.Sub(n.CreationTimestamp.Time)
	return age >= 0 && age < gpustack.YoungNode
}

// nodesAs makes a finding about the nodes; show is what each of them has that shows it.
func nodesAs(f Finding, nodes []*gpuNode, show func(*gpuNode) []facts.Evidence) Finding {
	for _, n := range nodes {
		f.Objects = append(f.Objects, nodeRef(n.Name))
		if len(f.Evidence) < MaxListed {
			f.Evidence = append(f.Evidence, show(n)...)
		}
	}
	return f
}

func nodeRef(name string) string { return "node/" + name }

// named is the nodes in a sentence: "node a", "nodes a and b".
func named(nodes []*gpuNode) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return wording.InNumber(len(names), "node ", "nodes ") + wording.Few(names)
}

// evidence is one thing that can be read of the node.
func (g *gpuNode) evidence(field, value string) facts.Evidence {
	return facts.Evidence{Object: nodeRef(g.Name), Field: field, Value: value}
}

func labelField(key string) string { return `metadata.labels["` + key + `"]` }

// gather puts nodes with the same key together, in their order; those with "" are left out.
func gather(nodes []*gpuNode, key func(*gpuNode) string) [][]*gpuNode {
	at := make(map[string]int)
	var out [][]*gpuNode
	for _, n := range nodes {
		k := key(n)
		if k == "" {
			continue
		}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], n)
	}
	return out
}

// gpusOf counts the nodes' GPUs in words: "8 nvidia.com/gpu".
func gpusOf(nodes []*gpuNode) string {
	sums := make(map[string]int64)
	var names []string
	for _, n := range nodes {
		for _, r := range n.resources() {
			if _, ok := sums[r]; !ok {
				names = append(names, r)
			}
			sums[r] += n.capacity(r)
		}
	}
	var words []string
	for _, r := range names {
		words = append(words, fmt.Sprintf("%d %s", sums[r], r))
	}
	if len(words) == 0 {
		return "it is not known how many GPUs"
	}
	return wording.AtMost(3, words)
}

// poolName is what nodes have in common whose drivers should be equal.
func poolName(n *gpuNode) string {
	if _, pool := n.pool(); pool != "" {
		return "pool " + pool
	}
	return cmp.Or(n.product(), "all nodes without a pool")
}

// whole is the product of the GPUs, however they are shared or divided.
func (g *gpuNode) whole() string {
	p, _, _ := strings.Cut(g.product(), "-MIG-")
	return strings.TrimSuffix(p, "-SHARED")
}

func sortedNames(list corev1.ResourceList) []string {
	out := make([]string, 0, len(list))
	//archtest:any-order sorted below
	for name := range list {
		out = append(out, string(name))
	}
	slices.Sort(out)
	return out
}
