package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kai"
	"github.com/berth-dev/berth/kube/dialect/kueue"
	"github.com/berth-dev/berth/kube/dialect/volcano"
)

// queue is a queue of any system, as far as the checklist is about it.
type queue struct {
	system string // "Berth", "Kueue", "KAI", "Volcano"
	name   string
	object string // as evidence names it
	parent string // "": at the top
	shares []share
	// selects are the namespaces that may use it; nil: all, or unknown.
	selects labels.Selector
}

// share is what a queue is promised, and may hold at most, of one kind of GPU. -1: it does not say.
type share struct {
	resource     string
	kind         string // a GPU model, or a flavor; "": of all
	quota, limit int64
	field        string
	on           func(*gpuNode) bool // the nodes that have this kind; nil: all
}

// queues are those of all systems that could be read, by system and name.
func (c *Cluster) queues() []queue {
	return facts.Derive(c.Facts, func(*facts.Facts) []queue {
		out := slices.Concat(c.berthQueues(), c.kueueQueues(), c.kaiQueues(), c.volcanoQueues())
		slices.SortStableFunc(out, func(a, b queue) int {
			return cmp.Or(strings.Compare(a.system, b.system), strings.Compare(a.name, b.name))
		})
		return out
	})
}

func (c *Cluster) berthQueues() (out []queue) {
	for _, u := range c.Foreign["BerthQueue.berth.dev"] {
		var q v1alpha1.BerthQueue
		if !dialect.Decode(u.Object, &q) {
			continue
		}
		o := queue{system: "Berth", name: q.Name, object: "berthqueue/" + q.Name, parent: q.Spec.Parent}
		if q.Spec.NamespaceSelector != nil {
			if s, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector); err == nil {
				o.selects = s
			}
		}
		for i := range q.Spec.Resources {
			r := &q.Spec.Resources[i]
			if _, ok := gpuResource(r.Name); !ok {
				continue
			}
			s := share{resource: r.Name, kind: r.GPUModel, quota: -1, limit: -1, field: fmt.Sprintf("spec.resources[%d]", i)}
			if r.Quota != nil {
				s.quota = r.Quota.Value()
			}
			if r.Limit != nil {
				s.limit = r.Limit.Value()
			}
			if r.GPUModel != "" {
				s.on = ofModel(r.GPUModel)
			}
			o.shares = append(o.shares, s)
		}
		out = append(out, o)
	}
	return out
}

// ofModel says whether the node's GPUs are of the model: long and short names are the same.
func ofModel(model string) func(*gpuNode) bool {
	want := strings.ToUpper(convert.QueueResource("", model))
	return func(n *gpuNode) bool { return strings.ToUpper(convert.QueueResource("", n.whole())) == want }
}

func (c *Cluster) kueueQueues() (out []queue) {
	flavors := make(map[string]map[string]string)
	for _, f := range c.Foreign[kueue.ResourceFlavors] {
		flavors[f.GetName()] = dialect.StringMap(f.Object, "spec", "nodeLabels")
	}
	for _, u := range c.Foreign[kueue.ClusterQueues] {
		o := queue{system: "Kueue", name: u.GetName(), object: "clusterqueue/" + u.GetName()}
		for g, group := range dialect.Items(u.Object, "spec", "resourceGroups") {
			for i, flavor := range dialect.Items(group, "flavors") {
				name := dialect.Text(flavor, "name")
				want, known := flavors[name]
				for j, r := range dialect.Items(flavor, "resources") {
					resource := dialect.Text(r, "name")
					if _, ok := gpuResource(resource); !ok {
						continue
					}
					s := share{resource: resource, kind: name, quota: -1, limit: -1, field: fmt.Sprintf("spec.resourceGroups[%d].flavors[%d].resources[%d]", g, i, j)}
					if n, ok := podspec.AmountAt(resource, r, "nominalQuota"); ok {
						s.quota = n
					}
					s.on = func(n *gpuNode) bool { return known && labels.SelectorFromSet(want).Matches(labels.Set(n.Labels)) }
					o.shares = append(o.shares, s)
				}
			}
		}
		out = append(out, o)
	}
	return out
}

func (c *Cluster) kaiQueues() (out []queue) {
	for _, u := range c.Foreign[kai.Queues] {
		o := queue{system: "KAI", name: u.GetName(), object: "queue/" + u.GetName(), parent: dialect.Text(u.Object, "spec", "parentQueue")}
		s := share{resource: kai.GPU, quota: -1, limit: -1, field: "spec.resources.gpu"}
		if n, ok := dialect.Number(u.Object, "spec", "resources", "gpu", "quota"); ok {
			s.quota = n
		}
		if n, ok := dialect.Number(u.Object, "spec", "resources", "gpu", "limit"); ok {
			s.limit = n
		}
		o.shares = append(o.shares, s)
		out = append(out, o)
	}
	return out
}

func (c *Cluster) volcanoQueues() (out []queue) {
	for _, u := range c.Foreign[volcano.Queues] {
		o := queue{system: "Volcano", name: u.GetName(), object: "queue/" + u.GetName(), parent: dialect.Text(u.Object, "spec", "parent")}
		byName := make(map[string]*share)
		var order []string
		read := func(set func(*share, int64), path ...string) {
			//archtest:any-order sorted below
			for name := range volcano.Quantities(u.Object, path...) {
				n, ok := podspec.AmountAt(name, u.Object, append(slices.Clone(path), name)...)
				if _, gpu := gpuResource(name); !ok || !gpu {
					continue
				}
				if byName[name] == nil {
					byName[name] = &share{resource: name, quota: -1, limit: -1, field: "spec"}
					order = append(order, name)
				}
				set(byName[name], n)
			}
		}
		read(func(s *share, n int64) { s.limit = n }, "spec", "capability")
		read(func(s *share, n int64) { s.quota = n }, "spec", "guarantee", "resource")
		read(func(s *share, n int64) { s.quota = n }, "spec", "deserved")
		slices.Sort(order)
		for _, name := range order {
			o.shares = append(o.shares, *byName[name])
		}
		out = append(out, o)
	}
	return out
}

// queueNamed finds a queue of the system.
func (c *Cluster) queueNamed(system, name string) *queue {
	all := c.queues()
	i := slices.IndexFunc(all, func(q queue) bool { return q.system == system && q.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// share is what the queue says of the resource and kind; nil: nothing.
func (q *queue) share(resource, kind string) *share {
	for i := range q.shares {
		s := &q.shares[i]
		if s.resource == resource && strings.EqualFold(convert.QueueResource("", s.kind), convert.QueueResource("", kind)) {
			return s
		}
	}
	return nil
}

// capacityOf is how many units of the resource the nodes have that are of the kind.
func (c *Cluster) capacityOf(s *share) (units int64, nodes int) {
	for _, n := range c.gpus {
		if s.on != nil && !s.on(n) {
			continue
		}
		if have := n.capacity(s.resource); have > 0 {
			units += have
			nodes++
		}
	}
	return units, nodes
}

// queueOf is the queue that the pod is charged to: the system and the name, and the object that says so; "" where nothing says it.
func (c *Cluster) queueOf(p *corev1.Pod) (system, name string, by facts.Object) {
	at := facts.Object(p)
	for range 6 {
		for _, key := range []struct{ system, key string }{{"Kueue", kueue.QueueLabel}, {"KAI", kai.QueueLabel}, {"Volcano", "scheduling.volcano.sh/queue-name"}} {
			if v := cmp.Or(at.GetLabels()[key.key], at.GetAnnotations()[key.key]); v != "" {
				return key.system, v, at
			}
		}
		if v := convert.QueueOf(at); v != "" {
			return "Berth", v, at
		}
		if at = c.Controller(at); at == nil {
			break
		}
	}
	for _, n := range c.Namespaces {
		if n.Name == p.Namespace {
			if v := convert.QueueOf(n); v != "" {
				return "Berth", v, n
			}
		}
	}
	return "", "", nil
}

// thing is what the share counts, in words: "nvidia.com/gpu of H100".
func (s *share) thing() string {
	if s.kind == "" {
		return s.resource
	}
	return s.resource + " of " + s.kind
}

func amountText(n int64) string {
	if n < 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}
