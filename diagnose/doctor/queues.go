package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

var queuesItem = Item{
	Code: "queues", Title: "every queue can be met", Owner: check.Scheduler, Needs: []string{"nodes", "pods"}, Find: queuesFound,
	Meaning: "A queue of GPUs that nobody has, or whose limit is below what waits in it, keeps its work waiting for ever.",
}

func queuesFound(c *Cluster) Result {
	queues := c.queues()
	r := Result{Looked: wording.Number(len(queues), "queue")}
	r.Findings = slices.Concat(c.orphans(queues), c.ofNothing(queues), c.tooSmall(queues), c.unnamedQueues(), c.kueueTroubles(), c.closedToAll(queues))
	return r
}

// orphans are queues whose parent does not exist.
func (c *Cluster) orphans(queues []queue) (out []Finding) {
	for _, q := range queues {
		if q.parent == "" || c.queueNamed(q.system, q.parent) != nil || q.system == "Volcano" && q.parent == "root" {
			continue
		}
		field := "spec.parent"
		if q.system == "KAI" {
			field = "spec.parentQueue"
		}
		out = append(out, Finding{
			Severity: Fail, Message: fmt.Sprintf("queue %s is below %s, which does not exist", q.name, q.parent), Next: "create the parent, or name one that exists",
			Objects: []string{q.object}, Evidence: []facts.Evidence{{Object: q.object, Field: field, Value: q.parent}},
		})
	}
	return out
}

// ofNothing are quotas of GPUs that no node has.
func (c *Cluster) ofNothing(queues []queue) (out []Finding) {
	for _, q := range queues {
		for _, s := range q.shares {
			if s.quota <= 0 && s.limit <= 0 {
				continue
			}
			if _, nodes := c.capacityOf(&s); nodes > 0 {
				continue
			}
			f := Finding{
				Severity: Fail, Message: fmt.Sprintf("queue %s is promised %s %s, and no node has any", q.name, amountText(max(s.quota, s.limit)), s.thing()),
				Next: "name what nodes have, or add nodes", Objects: []string{q.object}, Evidence: []facts.Evidence{{Object: q.object, Field: s.field, Value: s.thing()}},
			}
			if c.scalesUp() {
				f.Severity, f.Message = Note, f.Message+" now; an autoscaler may add some"
			}
			if have := c.kindsOf(s.resource); len(have) > 0 && s.kind != "" {
				f.Message += "; nodes have " + wording.AtMost(3, have)
			}
			out = append(out, f)
		}
	}
	return out
}

// kindsOf are the products of nodes that offer the resource, sorted.
func (c *Cluster) kindsOf(resource string) []string {
	var out []string
	for _, n := range c.gpus {
		if n.capacity(resource) > 0 && n.whole() != "" {
			out = append(out, n.whole())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// scalesUp says whether an autoscaler adds nodes when work waits.
func (c *Cluster) scalesUp() bool {
	return len(c.Foreign["NodePool.karpenter.sh"]) > 0 || len(c.AutoscalerStatus()) > 0
}

// wanted is a workload that waits: a gang, or a pod by itself.
type wanted struct {
	name     string
	pods     []*corev1.Pod
	resource string
	gpus     int64
}

// waiting are the workloads of the queue that have pods without a node, with what all of their pods ask for, by the
// queue's system and name.
func (c *Cluster) waiting() map[string][]wanted {
	out := make(map[string][]wanted)
	at := make(map[string]int)
	waits := make(map[string]bool)
	for _, p := range c.pods {
		if p.Spec.NodeName == "" {
			waits[c.workload(p.Pod)] = true
		}
	}
	for _, p := range c.pods {
		work := c.workload(p.Pod)
		if !waits[work] {
			continue
		}
		system, name, _ := c.queueOf(p.Pod)
		if name == "" {
			if c.queueNamed("Berth", v1alpha1.DefaultQueue) == nil || p.Spec.SchedulerName != "berth" {
				continue
			}
			system, name = "Berth", v1alpha1.DefaultQueue
		}
		if system == "Kueue" {
			name = c.clusterQueueOf(p.Namespace, name)
		}
		queue := system + "\x00" + name
		//archtest:any-order each amount is of another resource
		for resource, n := range p.asks {
			key := queue + "\x00" + work + "\x00" + resource
			i, ok := at[key]
			if !ok {
				i = len(out[queue])
				at[key] = i
				out[queue] = append(out[queue], wanted{name: work, resource: resource})
			}
			w := &out[queue][i]
			w.gpus += n
			w.pods = append(w.pods, p.Pod)
		}
	}
	//archtest:any-order each list is sorted by itself
	for _, list := range out {
		slices.SortFunc(list, func(a, b wanted) int {
			return cmp.Or(cmp.Compare(a.gpus, b.gpus), strings.Compare(a.name, b.name), strings.Compare(a.resource, b.resource))
		})
	}
	return out
}

// workload names what the pod starts together with, or the pod.
func (c *Cluster) workload(p *corev1.Pod) string {
	if g := c.GangOf(p); g != "" {
		return g
	}
	return p.Namespace + "/" + p.Name
}

func (c *Cluster) clusterQueueOf(namespace, local string) string {
	if u := c.ForeignNamed(kueue.LocalQueues, namespace, local); u != nil {
		return dialect.Text(u.Object, "spec", "clusterQueue")
	}
	return ""
}

// tooSmall are queues whose limit, or that of one above them, is below the smallest workload that waits in them.
func (c *Cluster) tooSmall(queues []queue) (out []Finding) {
	waiting := c.waiting()
	for i := range queues {
		q := &queues[i]
		for _, w := range waiting[q.system+"\x00"+q.name] {
			for at, up := q, 0; at != nil && up < 16; at, up = c.above(at), up+1 {
				s := at.share(w.resource, "")
				if s == nil || s.limit < 0 || w.gpus <= s.limit {
					continue
				}
				pod := facts.RefTo(w.pods[0]).In()
				out = append(out, Finding{
					Severity: Fail, Message: fmt.Sprintf("workload %s waits in queue %s for %d %s, and queue %s may hold %d at most", w.name, q.name, w.gpus, w.resource, at.name, s.limit),
					Next: "raise the limit, or have the work ask for less", Objects: []string{at.object, pod},
					Evidence: []facts.Evidence{{Object: at.object, Field: s.field, Value: fmt.Sprintf("limit %d", s.limit)}, {Object: pod, Field: "spec.containers", Value: fmt.Sprintf("%d %s in %s", w.gpus, w.resource, wording.Pods(len(w.pods)))}},
				})
				break
			}
		}
	}
	return out
}

// above is the queue's parent; nil at the top.
func (c *Cluster) above(q *queue) *queue {
	if q.parent == "" || q.parent == q.name {
		return nil
	}
	return c.queueNamed(q.system, q.parent)
}

// unnamedQueues are queues that GPU work names and that do not exist.
func (c *Cluster) unnamedQueues() (out []Finding) {
	missing := make(map[string]*Finding)
	var order []string
	for _, p := range c.pods {
		system, name, by := c.queueOf(p.Pod)
		if name == "" || !c.seesQueues(system) {
			continue
		}
		exists, kind := c.queueNamed(system, name) != nil, system+" queue "+name
		if system == "Kueue" {
			exists, kind = c.ForeignNamed(kueue.LocalQueues, p.Namespace, name) != nil, "LocalQueue "+name+" of namespace "+p.Namespace
		}
		if exists || system == "Berth" && (name == v1alpha1.DefaultQueue || len(c.Foreign["BerthQueue.berth.dev"]) == 0) {
			continue
		}
		if missing[kind] == nil {
			missing[kind] = &Finding{Severity: Fail, Owner: check.User, Next: "create the queue, or have the work name one that exists"}
			order = append(order, kind)
		}
		f := missing[kind]
		f.Objects = append(f.Objects, facts.RefTo(p.Pod).In())
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(by).In(), Field: "metadata", Value: name})
	}
	slices.Sort(order)
	for _, kind := range order {
		f := missing[kind]
		f.Message = fmt.Sprintf("%s does not exist, and %s %s it", kind, wording.Pods(len(f.Objects)), wording.InNumber(len(f.Objects), "names", "name"))
		out = append(out, *f)
	}
	return out
}

// seesQueues says whether queues of the system could be read.
func (c *Cluster) seesQueues(system string) bool {
	switch system {
	case "Kueue":
		return c.Sees("localqueues.kueue.x-k8s.io", "")
	case "KAI":
		return c.Sees("queues.scheduling.run.ai", "")
	case "Volcano":
		return c.Sees("queues.scheduling.volcano.sh", "")
	}
	return c.Sees("berthqueues.berth.dev", "")
}

// kueueTroubles are Kueue's objects that say themselves that they do not work, or lead nowhere.
func (c *Cluster) kueueTroubles() (out []Finding) {
	for _, u := range c.Foreign[kueue.ClusterQueues] {
		s := dialect.ConditionOf(u, "Active")
		if s == nil || s.Status != "False" {
			continue
		}
		severity := Fail
		if s.Reason == "Stopped" {
			severity = Note
		}
		object := "clusterqueue/" + u.GetName()
		out = append(out, Finding{
			Severity: severity, Message: fmt.Sprintf("ClusterQueue %s is not active: %s", u.GetName(), cmp.Or(s.Message, s.Reason)), Next: "create what it lacks, or start it again",
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: "status.conditions[type=Active].reason", Value: s.Reason}},
		})
	}
	if !c.Sees("clusterqueues.kueue.x-k8s.io", "") {
		return out
	}
	for _, u := range c.Foreign[kueue.LocalQueues] {
		to := dialect.Text(u.Object, "spec", "clusterQueue")
		if c.ForeignNamed(kueue.ClusterQueues, "", to) != nil {
			continue
		}
		object := facts.RefTo(u).In()
		out = append(out, Finding{
			Severity: Fail, Message: fmt.Sprintf("LocalQueue %s of namespace %s leads to ClusterQueue %s, which does not exist", u.GetName(), u.GetNamespace(), to), Next: "create the ClusterQueue, or name one that exists",
			Objects: []string{object}, Evidence: []facts.Evidence{{Object: object, Field: "spec.clusterQueue", Value: to}},
		})
	}
	return out
}

// closedToAll are queues whose selector selects no namespace.
func (c *Cluster) closedToAll(queues []queue) (out []Finding) {
	if !c.Sees("namespaces", "") || len(c.Namespaces) == 0 {
		return nil
	}
	for _, q := range queues {
		if q.selects == nil || slices.ContainsFunc(c.Namespaces, func(n *corev1.Namespace) bool { return q.selects.Matches(labels.Set(n.Labels)) }) {
			continue
		}
		out = append(out, Finding{
			Severity: Warn, Message: fmt.Sprintf("no namespace may use queue %s: its selector %s selects none", q.name, q.selects), Next: "label the namespaces that it is for, or change the selector",
			Objects: []string{q.object}, Evidence: []facts.Evidence{{Object: q.object, Field: "spec.namespaceSelector", Value: q.selects.String()}},
		})
	}
	return out
}
