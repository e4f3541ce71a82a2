package l3

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

var queueMissingCheck = check.Check{
	Cause: why.QueueMissing, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 20,
	Title:   "The queue it names does not exist",
	Meaning: "The work names a queue that nobody has made, or one that leads to another that nobody has made. Mostly a slip of the pen.",
	Remedy:  "Name a queue that exists, or have the queue made.",
	Not:     "The queue is full.",
	Find:    queueMissing,
}

func queueMissing(c *check.Case) []check.Finding {
	if g, ok := queue.GateOf(c, why.QueueMissing); ok {
		return []check.Finding{queue.BerthMissing(c, g.Object)}
	}
	if found := queue.BerthSaid(c, why.QueueMissing); found != nil {
		return found
	}
	if found := queue.Refused(c, why.QueueMissing); found != nil {
		return found
	}
	if found := queue.KaiMissing(c); found != nil {
		return found
	}
	if found := queue.VolcanoMissing(c); found != nil {
		return found
	}
	v := queue.Kueue(c)
	if v == nil || v.Cause != why.QueueMissing {
		return nil
	}
	if v.Local == nil {
		return []check.Finding{{
			Message: fmt.Sprintf("LocalQueue %s does not exist in namespace %s", v.Queue, c.Pod.Namespace), Evidence: v.Evidence(),
			Edits: append(queue.KueueElsewhere(c, v), kueueMake(c, v)...),
		}}
	}
	if !c.Sees("clusterqueues.kueue.x-k8s.io", "") && !strings.Contains(v.Message, "ClusterQueue") {
		return nil // Kueue's word about the LocalQueue, which is there by now
	}
	cluster := dialect.Text(v.Local.Object, "spec", "clusterQueue")
	return []check.Finding{{
		Owner: check.Scheduler, Message: fmt.Sprintf("LocalQueue %s leads to ClusterQueue %s, which does not exist", v.Queue, cluster),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.Local).In(), Field: "spec.clusterQueue", Value: cluster}},
		Edits:    append(queue.KueueElsewhere(c, v), kueueRelead(c, v, cluster)...),
	}}
}

// kueueMake makes the LocalQueue that is named, for the ClusterQueue with the most alike name.
func kueueMake(c *check.Case, v *queue.KueueView) []edit.Edit {
	for _, cluster := range spelling.ByLikeness(v.Queue, c.ForeignNames(kueue.ClusterQueues, "")) {
		local := queue.KueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.Queue, map[string]any{"clusterQueue": cluster})
		e := edit.Edit{Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("make LocalQueue %s in namespace %s, for ClusterQueue %s", v.Queue, c.Pod.Namespace, cluster), Set: []facts.Object{local}, Command: edit.ApplyLine(local)}
		if out := queue.KueueOnly(c, e); out != nil {
			return out
		}
	}
	return nil
}

// kueueRelead makes the LocalQueue anew for another ClusterQueue: that it leads to one cannot be changed in place.
func kueueRelead(c *check.Case, v *queue.KueueView, missing string) []edit.Edit {
	for _, cluster := range spelling.ByLikeness(missing, c.ForeignNames(kueue.ClusterQueues, "")) {
		local := queue.KueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.Queue, map[string]any{"clusterQueue": cluster})
		local.SetUID(v.Local.GetUID())
		anew := queue.KueueNew(c.Facts, "LocalQueue", c.Pod.Namespace, v.Queue, map[string]any{"clusterQueue": cluster})
		e := edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("make LocalQueue %s anew for ClusterQueue %s", v.Queue, cluster), Set: []facts.Object{local},
			Command: fmt.Sprintf("kubectl delete localqueues.kueue.x-k8s.io %s -n %s && %s", v.Queue, c.Pod.Namespace, edit.ApplyLine(anew)),
		}
		if out := queue.KueueOnly(c, e); out != nil {
			return out
		}
	}
	return nil
}
