package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/convert"
)

var quotasItem = Item{
	Code: "quotas", Title: "quotas add up to no more than there is", Owner: check.Scheduler, Needs: []string{"nodes"}, Find: quotasFound,
	Meaning: "A promise that the fleet cannot keep is found out by the team that relies on it; a quota whose key is misspelt holds nobody back.",
}

func quotasFound(c *Cluster) Result {
	queues := c.queues()
	r := Result{Looked: fmt.Sprintf("%s, %s", wording.Number(len(queues), "queue"), wording.Number(len(c.ResourceQuotas), "ResourceQuota"))}
	r.Findings = slices.Concat(c.overPromised(queues), c.overParent(queues), c.deadKeys(), c.narrowerThanQueue(queues))
	for _, kind := range []string{"berthqueues.berth.dev", "clusterqueues.kueue.x-k8s.io", "queues.scheduling.run.ai", "queues.scheduling.volcano.sh", "resourcequotas"} {
		if !c.Sees(kind, "") {
			r.Blind = "you may not list " + kind + " in the whole cluster"
		}
	}
	return r
}

// overPromised are promises to queues without a parent that add up to more than the nodes have.
func (c *Cluster) overPromised(queues []queue) (out []Finding) {
	type sum struct {
		share
		system string
		quota  int64
		of     []queue
		fields []string
	}
	sums := make(map[string]*sum)
	var order []string
	for _, q := range queues {
		if q.parent != "" && c.queueNamed(q.system, q.parent) != nil {
			continue
		}
		for _, s := range q.shares {
			if s.quota <= 0 {
				continue
			}
			key := q.system + "\x00" + s.resource + "\x00" + strings.ToUpper(convert.QueueResource("", s.kind))
			if sums[key] == nil {
				sums[key] = &sum{share: s, system: q.system}
				order = append(order, key)
			}
			sums[key].quota += s.quota
			sums[key].of, sums[key].fields = append(sums[key].of, q), append(sums[key].fields, s.field)
		}
	}
	for _, key := range order {
		s := sums[key]
		have, _ := c.capacityOf(&s.share)
		if s.quota <= have || have == 0 { // another item reports what no node has
			continue
		}
		f := Finding{
			Severity: Warn, Message: fmt.Sprintf("%s %s promised %d %s together, and the nodes have %d", wording.Number(len(s.of), s.system+" queue"), wording.InNumber(len(s.of), "is", "are"), s.quota, s.thing(), have),
			Next: "lower quotas by " + strconv.FormatInt(s.quota-have, 10) + ", or add nodes",
		}
		for i, q := range s.of {
			f.Objects = append(f.Objects, q.object)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: q.object, Field: s.fields[i], Value: fmt.Sprintf("quota %d", q.share(s.resource, s.kind).quota)})
		}
		out = append(out, f)
	}
	return out
}

// overParent are children that are promised more than their parent, or more than it may hold.
func (c *Cluster) overParent(queues []queue) (out []Finding) {
	for i := range queues {
		parent := &queues[i]
		for _, s := range parent.shares {
			var sum int64
			f := Finding{Severity: Warn}
			for _, q := range queues {
				if q.system != parent.system || q.parent != parent.name || q.name == parent.name {
					continue
				}
				if own := q.share(s.resource, s.kind); own != nil && own.quota > 0 {
					sum += own.quota
					f.Objects = append(f.Objects, q.object)
					f.Evidence = append(f.Evidence, facts.Evidence{Object: q.object, Field: own.field, Value: fmt.Sprintf("quota %d", own.quota)})
				}
			}
			most, word := s.quota, "is promised"
			if most < 0 || s.limit >= 0 && s.limit < most {
				most, word = s.limit, "may hold"
			}
			if most < 0 || sum <= most {
				continue
			}
			f.Message = fmt.Sprintf("queues below %s are promised %d %s together, and it %s %d", parent.name, sum, s.thing(), word, most)
			f.Next = fmt.Sprintf("lower the quotas of its children by %d, or raise its own", sum-most)
			f.Objects = append([]string{parent.object}, f.Objects...)
			f.Evidence = append([]facts.Evidence{{Object: parent.object, Field: s.field, Value: fmt.Sprintf("quota %s, limit %s", amountText(s.quota), amountText(s.limit))}}, f.Evidence...)
			out = append(out, f)
		}
	}
	return out
}

// deadKeys are ResourceQuotas that name an extended resource without "requests.", which the API server never counts.
func (c *Cluster) deadKeys() (out []Finding) {
	for _, q := range sortedQuotas(c.ResourceQuotas) {
		for _, name := range sortedNames(q.Spec.Hard) {
			if near := c.meant(name); near != "" {
				ref, hard := facts.RefTo(q).In(), q.Spec.Hard[corev1.ResourceName(name)]
				out = append(out, Finding{
					Severity: Warn, Message: fmt.Sprintf("ResourceQuota %s of namespace %s limits nothing by %s: no node has that resource; nodes have %s", q.Name, q.Namespace, name, near),
					Next: "rename the key to requests." + near, Objects: []string{ref}, Evidence: []facts.Evidence{{Object: ref, Field: `spec.hard["` + name + `"]`, Value: hard.String()}},
				})
			}
			if _, gpu := gpuResource(name); !gpu {
				continue
			}
			hard := q.Spec.Hard[corev1.ResourceName(name)]
			ref, of := facts.RefTo(q).In(), name
			for _, r := range c.gpuNames() {
				if strings.HasSuffix(name, "."+r) { // the prefix is written in another way
					of = r
				}
			}
			out = append(out, Finding{
				Severity: Warn, Message: fmt.Sprintf("ResourceQuota %s of namespace %s limits nothing: the key %s has to be requests.%s", q.Name, q.Namespace, name, of),
				Next: "rename the key to requests." + of, Objects: []string{ref}, Evidence: []facts.Evidence{{Object: ref, Field: `spec.hard["` + name + `"]`, Value: hard.String()}},
			})
		}
	}
	return out
}

// meant is the resource of GPUs that nodes have, and that the key of a quota names almost, where no node has what it names; "" for none.
func (c *Cluster) meant(key string) string {
	name, ok := strings.CutPrefix(key, "requests.")
	if !ok || !strings.Contains(name, "/") || slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { _, has := n.Status.Capacity[corev1.ResourceName(name)]; return has }) {
		return ""
	}
	for _, r := range spelling.ByLikeness(name, c.gpuNames()) {
		if spelling.Typo(name, r) {
			return r
		}
	}
	return ""
}

// gpuNames are the resources by which nodes offer their GPUs, by name.
func (c *Cluster) gpuNames() (out []string) {
	for _, g := range c.gpus {
		for _, r := range g.resources() {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return out
}

// narrowerThanQueue are queues that one namespace alone may use, whose ResourceQuotas allow less than the queue is promised.
func (c *Cluster) narrowerThanQueue(queues []queue) (out []Finding) {
	for _, q := range queues {
		namespace := c.onlyNamespace(q.selects)
		if namespace == "" {
			continue
		}
		for _, s := range q.shares {
			for _, rq := range sortedQuotas(c.ResourceQuotas) {
				hard, ok := rq.Spec.Hard[corev1.ResourceName("requests."+s.resource)]
				if rq.Namespace != namespace || !ok || s.kind != "" || len(rq.Spec.Scopes) > 0 || rq.Spec.ScopeSelector != nil || hard.Value() >= s.quota {
					continue
				}
				ref := facts.RefTo(rq).In()
				out = append(out, Finding{
					Severity: Warn, Message: fmt.Sprintf("queue %s is promised %d %s, and namespace %s, which alone may use it, is held to %d by ResourceQuota %s", q.name, s.quota, s.resource, namespace, hard.Value(), rq.Name),
					Next: "raise the ResourceQuota to the queue's quota, or leave limits to the queue", Objects: []string{ref, q.object},
					Evidence: []facts.Evidence{{Object: ref, Field: `spec.hard["requests.` + s.resource + `"]`, Value: hard.String()}, {Object: q.object, Field: s.field, Value: fmt.Sprintf("quota %d", s.quota)}},
				})
			}
		}
	}
	return out
}

// onlyNamespace is the one namespace that the selector selects; "": there are none or several.
func (c *Cluster) onlyNamespace(s labels.Selector) string {
	if s == nil || s.Empty() {
		return ""
	}
	found := ""
	for _, n := range c.Namespaces {
		if s.Matches(labels.Set(n.Labels)) {
			if found != "" {
				return ""
			}
			found = n.Name
		}
	}
	return found
}

func sortedQuotas(all []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	return slices.SortedFunc(slices.Values(all), func(a, b *corev1.ResourceQuota) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
