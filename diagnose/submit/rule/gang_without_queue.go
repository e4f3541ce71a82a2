package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var gangWithoutQueue = Rule{
	Code: "B103", Name: "gang-without-queue",
	Title: "A gang that names no queue",
	Why:   "Without a queue a gang is charged to the default queue, which has no quota unless an administrator gave it one: it runs on what others do not use, and is the first to be evicted when they want it back.",
	find:  findGangWithoutQueue,
}

func findGangWithoutQueue(c *Case) (out []Finding) {
	if len(c.Foreign[v1alpha1.QueueKind+"."+v1alpha1.GroupVersion.Group]) == 0 && !c.Bare {
		return nil // there are no queues here, and so no quota
	}
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		if c.GangOf(pod) == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
			return
		}
		if value, _ := c.Inherited(pod, v1alpha1.KeyQueue); value != "" {
			return
		}
		if t := c.Spoken(pod); t != nil && t.Keys[v1alpha1.KeyQueue] != "" { // the queue of another scheduler's object
			return
		}
		if g := c.PodGroup(pod); g != nil && (g.Annotations[v1alpha1.KeyQueue] != "" || g.Labels[v1alpha1.KeyQueue] != "") {
			return
		}
		if value := c.namespaceQueue(pod.Namespace); value != "" {
			return
		}
		out = append(out, Finding{
			Path: "/metadata", Message: fmt.Sprintf("%s names no queue (%s), so it is charged to queue %s", c.GangName(pod), v1alpha1.KeyQueue, v1alpha1.DefaultQueue),
			Advice: "Name the queue of your team in the annotation " + v1alpha1.KeyQueue + ".",
		})
	})
	return out[:min(1, len(out))]
}

// namespaceQueue is the queue that the namespace names for its work; "": none.
func (c *Case) namespaceQueue(namespace string) string {
	for _, n := range c.Namespaces {
		if n.Name == namespace {
			if v := n.Annotations[v1alpha1.KeyQueue]; v != "" {
				return v
			}
			return n.Labels[v1alpha1.KeyQueue]
		}
	}
	return ""
}
