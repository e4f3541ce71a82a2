package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
)

var queueMissingCheck = Check{
	Cause: why.QueueMissing, Layer: L3, Owner: User, Stage: Admit, Rank: 20,
	Title:   "The queue it names does not exist",
	Meaning: "The work names a queue that nobody has made, or one that leads to another that nobody has made. Mostly a slip of the pen.",
	Remedy:  "Name a queue that exists, or have the queue made.",
	Not:     "The queue is full.",
	Find:    queueMissing,
}

func queueMissing(c *Case) []Finding {
	if g, ok := c.gate(why.QueueMissing); ok {
		return []Finding{c.berthMissing(g.Object)}
	}
	if found := c.berthSaid(why.QueueMissing); found != nil {
		return found
	}
	if found := c.kaiMissing(); found != nil {
		return found
	}
	if found := c.volcanoMissing(); found != nil {
		return found
	}
	v := c.kueue()
	if v == nil || v.cause != why.QueueMissing {
		return nil
	}
	if v.local == nil {
		return []Finding{{
			Message: fmt.Sprintf("LocalQueue %s does not exist in namespace %s", v.queue, c.Pod.Namespace), Evidence: v.evidence(),
			Edits: append(c.kueueElsewhere(v), c.kueueMake(v)...),
		}}
	}
	cluster := dialect.Text(v.local.Object, "spec", "clusterQueue")
	return []Finding{{
		Owner: Scheduler, Message: fmt.Sprintf("LocalQueue %s leads to ClusterQueue %s, which does not exist", v.queue, cluster),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.local).In(), Field: "spec.clusterQueue", Value: cluster}},
		Edits:    append(c.kueueElsewhere(v), c.kueueRelead(v, cluster)...),
	}}
}

// kueueMake makes the LocalQueue that is named, for the ClusterQueue with the most alike name.
func (c *Case) kueueMake(v *kueueView) []edit.Edit {
	for _, cluster := range spelling.ByLikeness(v.queue, c.ForeignNames(kueueClusterQueues, "")) {
		local := kueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.queue, map[string]any{"clusterQueue": cluster})
		e := edit.Edit{Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("make LocalQueue %s in namespace %s, for ClusterQueue %s", v.queue, c.Pod.Namespace, cluster), Set: []facts.Object{local}, Command: edit.ApplyLine(local)}
		if out := c.kueueOnly(e); out != nil {
			return out
		}
	}
	return nil
}

// kueueRelead makes the LocalQueue anew for another ClusterQueue: that it leads to one cannot be changed in place.
func (c *Case) kueueRelead(v *kueueView, missing string) []edit.Edit {
	for _, cluster := range spelling.ByLikeness(missing, c.ForeignNames(kueueClusterQueues, "")) {
		local := kueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.queue, map[string]any{"clusterQueue": cluster})
		local.SetUID(v.local.GetUID())
		anew := kueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.queue, map[string]any{"clusterQueue": cluster})
		e := edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("make LocalQueue %s anew for ClusterQueue %s", v.queue, cluster), Set: []facts.Object{local},
			Command: fmt.Sprintf("kubectl delete localqueues.kueue.x-k8s.io %s -n %s && %s", v.queue, c.Pod.Namespace, edit.ApplyLine(anew)),
		}
		if out := c.kueueOnly(e); out != nil {
			return out
		}
	}
	return nil
}
