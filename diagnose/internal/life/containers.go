package life

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Container is one container of a pod: what was asked for, and what the kubelet last said of it.
type Container struct {
	*corev1.Container
	Status corev1.ContainerStatus // empty: nothing was said yet
	Init   bool
	at     []string // its path in the pod
}

// ContainersOf are the pod's init containers, then the others.
func ContainersOf(p *corev1.Pod) []Container {
	var out []Container
	add := func(list []corev1.Container, said []corev1.ContainerStatus, field string) {
		for i := range list {
			c := Container{Container: &list[i], Init: field == "initContainers", at: []string{"spec", field, fmt.Sprint(i)}}
			if at := slices.IndexFunc(said, func(s corev1.ContainerStatus) bool { return s.Name == list[i].Name }); at >= 0 {
				c.Status = said[at]
			}
			out = append(out, c)
		}
	}
	add(p.Spec.InitContainers, p.Status.InitContainerStatuses, "initContainers")
	add(p.Spec.Containers, p.Status.ContainerStatuses, "containers")
	return out
}

// Path is a JSON pointer to something of the container.
func (c *Container) Path(keys ...string) string { return edit.Pointer(slices.Concat(c.at, keys)...) }

// Noun is how a sentence names the container.
func (c *Container) Noun() string {
	if c.Init {
		return "init container " + c.Name
	}
	return "container " + c.Name
}

// Waits is what the container waits for, where its reason is one of those.
func (c *Container) Waits(reasons ...string) *corev1.ContainerStateWaiting {
	if w := c.Status.State.Waiting; w != nil && slices.Contains(reasons, w.Reason) {
		return w
	}
	return nil
}

// Ended is how its last instance ended; nil if none has.
func (c *Container) Ended() *corev1.ContainerStateTerminated {
	if t := c.Status.State.Terminated; t != nil {
		return t
	}
	return c.Status.LastTerminationState.Terminated
}

// Words are all that the kubelet says of why the container does not run.
func (c *Container) Words() string {
	var out []string
	if w := c.Status.State.Waiting; w != nil {
		out = append(out, w.Message)
	}
	if t := c.Ended(); t != nil {
		out = append(out, t.Message)
	}
	return strings.Join(out, "\n")
}

// Said is evidence of the container's state.
func (c *Container) Said(p *corev1.Pod, value string) facts.Evidence {
	list := "containerStatuses"
	if c.Init {
		list = "initContainerStatuses"
	}
	return facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("status.%s[%q].state", list, c.Name), Value: value}
}

// Gpus is how many GPUs the container asks for.
func (c *Container) Gpus() int64 {
	q := c.Resources.Limits["nvidia.com/gpu"]
	return q.Value()
}

// Tail are the last lines of the pod's container that were read.
func Tail(f *facts.Facts, p *corev1.Pod, container string) string {
	return f.Logs[p.Namespace+"/"+p.Name+"/"+container]
}

// LastTail are the last lines of the instance of the container that ended last: of one that runs again, those of the one before it.
func LastTail(f *facts.Facts, p *corev1.Pod, k *Container) string {
	if k.Status.State.Running != nil {
		if before := Tail(f, p, k.Name+"/previous"); before != "" {
			return before
		}
	}
	return cmp.Or(Tail(f, p, k.Name), Tail(f, p, k.Name+"/previous"))
}

// Shown is an event as evidence.
func Shown(e *corev1.Event) facts.Evidence {
	about := facts.Ref{Kind: e.InvolvedObject.Kind, Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}
	return facts.Evidence{Object: about.In(), Field: "event " + e.Reason, Value: wording.FirstLine(e.Message)}
}

// Troubles are events with one of the reasons after which the pod got no further; the newest first. A pod that ran gets no further
// either where its containers are made anew, as after a reboot of its node.
func Troubles(c *check.Case, reasons ...string) []*corev1.Event {
	if c.State != facts.Starting && !(c.State == facts.Running && Remade(c.Pod)) {
		return nil
	}
	var out []*corev1.Event
	for _, e := range c.EventsOf(c.Pod) {
		switch {
		case slices.Contains(reasons, e.Reason):
			out = append(out, e)
		case slices.Contains([]string{"Started", "Created", "Pulling", "Pulled"}, e.Reason):
			return out
		}
	}
	return out
}

// Remade says whether a container of a pod that ran is to be created again, and its sandbox or its volumes before it.
func Remade(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason == "ContainerCreating"
	})
}

// Since is when the pod got its node; the zero time where it has none.
func Since(p *corev1.Pod) time.Time {
	for _, k := range p.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionTrue {
			return k.LastTransitionTime.Time
		}
	}
	if p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return time.Time{}
}

// Alike are the existing pods of the target of which the same holds.
func Alike(c *check.Case, same func(*corev1.Pod) bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range c.All {
		if p.Name == c.Pod.Name || same(p) {
			out = append(out, p)
		}
	}
	return out
}

// Running are the pods as they would be if their containers ran.
func Running(pods []*corev1.Pod) []facts.Object {
	var out []facts.Object
	for _, p := range pods {
		n := p.DeepCopy()
		n.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: p.Status.StartTime}
		for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
		}
		out = append(out, n)
	}
	return out
}

// Authored is the container as its author wrote it: in the template, where the pod has one, without what the API server
// added.
func Authored(c *check.Case, k *Container) *corev1.Container {
	for _, m := range c.Owners {
		t := facts.TemplateFor(m, c.Pod)
		if t == nil {
			continue
		}
		list := t.Spec.Containers
		if k.Init {
			list = t.Spec.InitContainers
		}
		for i := range list {
			if list[i].Name == k.Name {
				return &list[i]
			}
		}
	}
	return k.Container
}
