package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// staysText is said of what is moved and stays until what follows it is ready.
const staysText = "; it stays until that is ready"

// evictionReasons are the reasons of conditions and events, by cause. Who reads them finds the cause again: they are
// added, never renamed. Broken is not read back: whether a gang is under its minimum is seen anew.
var evictionReasons = map[engine.EvictionCause]string{
	engine.Reclaimed: "Reclaimed",
	engine.Preempted: "Preempted",
	engine.Shared:    "OverFairShare",
	engine.Overran:   "Overran",
	engine.MaxRun:    "MaxRunTime",
	engine.Idled:     "Idle",
	engine.Moved:     "MovedForPlace",
	engine.Booked:    "Booked",
	engine.Broken:    reasonShort,
}

func reasonOf(c engine.EvictionCause) string {
	if r := evictionReasons[c]; r != "" {
		return r
	}
	return "Evicted"
}

// causeOf is the cause of evictions with the reason.
func causeOf(reason string) (engine.EvictionCause, bool) {
	for cause, r := range evictionReasons {
		if r == reason && cause != engine.Broken {
			return cause, true
		}
	}
	return "", false
}

// whyEvicted says in one line what is done, for whom, and why: "reclaimed for PodGroup team/a: queue b had borrowed 8
// nvidia.com/gpu". Who it is for is named to who reads its own namespace; queue is the one that it is in. beneficiary
// reads it.
func whyEvicted(e *engine.Eviction, at cluster.Pod, queue string, uses map[string]*engine.QueueUse, gpu string, marks why.Marker) string {
	verb, detail := "ended", ""
	switch e.Cause {
	case engine.Reclaimed:
		verb, detail = "reclaimed", borrowed(at.Queue, uses, gpu)
	case engine.Preempted:
		verb, detail = "preempted", "it has a higher priority"
	case engine.Shared:
		verb, detail = "given up", fmt.Sprintf("queue %s had more than its fair share", at.Queue)
	case engine.Overran:
		detail = "this ran longer than was said, into a promised start"
	case engine.MaxRun:
		detail = "its time was up"
	case engine.Idled:
		detail = "its GPUs did nothing"
	case engine.Moved:
		verb, detail = "moved", "a larger place becomes whole"
		if e.To != "" {
			detail += fmt.Sprintf(", and node %s has room for what follows it", e.To)
		}
		if e.Surge {
			detail += staysText
		}
	case engine.Booked:
		detail = "its node is booked"
	case engine.Broken:
		detail = "its gang is under its minimum and cannot be repaired"
	}
	if e.For != "" {
		verb += " for " + forWhom(e, queue, marks)
	}
	return verb + ": " + detail
}

// forWhom names the workload that the pod is evicted for. One of another namespace has a mark, by which a scheduler that
// is started anew knows it again.
func forWhom(e *engine.Eviction, queue string, marks why.Marker) string {
	namespace, _, _ := strings.Cut(e.Pod, "/")
	told := why.WorkloadFor(namespace, e.For, queue)
	if told != why.WorkloadName(e.For) {
		told += " " + marks.Mark(e.For)
	}
	return told
}

// borrowed says what the queue holds beyond its quota.
func borrowed(queue string, uses map[string]*engine.QueueUse, gpu string) string {
	if u := uses[queue]; u != nil {
		if over := u.Used.Get(gpu) - u.Quota.Get(gpu); over > 0 {
			return fmt.Sprintf("queue %s had borrowed %s", queue, amount(gpu, over))
		}
	}
	if queue == "" {
		return "it is in no queue"
	}
	return fmt.Sprintf("queue %s had borrowed it", queue)
}

func amount(resource string, n int64) string {
	q := convert.Quantity(resource, n)
	return q.String() + " " + resource
}

// beneficiary reads, of what whyEvicted says, for whom it is: the key, or the mark of one that is not named.
func beneficiary(text string) string {
	head, _, _ := strings.Cut(text, ": ")
	_, name, _ := strings.Cut(head, " for ")
	if mark := why.MarkIn(name); mark != "" {
		return mark
	}
	return why.WorkloadKey(name)
}

// marked returns the key of the workload that waits and has the mark. What is no mark, or of none, is returned as it is.
func (s *scheduler) marked(mark string) string {
	if !strings.HasPrefix(mark, "#") {
		return mark
	}
	return cmp.Or(s.feed.FindWaiting(func(workload string) bool { return s.marks.Mark(workload) == mark }), mark)
}

// evictionOf reads from a pod's conditions that it is to be evicted: one that was warned, or that was marked and never
// deleted. text is what whyEvicted said.
func evictionOf(p *corev1.Pod) (e engine.Eviction, text string, ok bool) {
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type != corev1.DisruptionTarget && c.Type != v1alpha1.PodEvictionPlanned {
			continue
		}
		cause, ours := causeOf(c.Reason)
		if !ours {
			continue
		}
		got := engine.Eviction{Pod: keyOf(p), UID: string(p.UID), Cause: cause, At: c.LastTransitionTime.UTC()}
		says := c.Message
		if c.Type == v1alpha1.PodEvictionPlanned {
			when, rest, _ := strings.Cut(strings.TrimPrefix(says, "at "), ", ")
			at, err := time.Parse(time.RFC3339, when)
			if err != nil {
				continue
			}
			got.At, says = at, rest
		}
		got.For = beneficiary(says)
		if !ok || c.Type == corev1.DisruptionTarget {
			e, text, ok = got, says, true
		}
	}
	return e, text, ok
}

// evicting says on the pod that it is, or will be, evicted.
func (y *sayer) evicting(p *corev1.Pod, reason, text string) {
	y.later(p, func(ctx context.Context) {
		y.post(ctx, y.event(p, corev1.EventTypeWarning, reason, "Evicting", text, false))
	})
}

// makesRoom says on a workload that waits who is evicted for it: on its first pod, and on its PodGroup.
func (y *sayer) makesRoom(gang string, victims []*eviction) {
	namespace, _, _ := strings.Cut(gang, "/")
	text := roomText(namespace, victims)
	say := func(o cluster.Object) {
		y.later(o, func(ctx context.Context) {
			y.post(ctx, y.event(o, corev1.EventTypeNormal, "MakingRoom", "Evicting", text, false))
		})
	}
	if pods := y.s.feed.Waiting(gang); len(pods) > 0 {
		say(pods[0])
	}
	if g := y.s.feed.Group(gang); g != nil {
		say(g)
	}
}

// roomText is "evicts 3 pods for it: team-a/x, 2 of queue b (reclaimed: queue b had borrowed 8 nvidia.com/gpu)". Pods of
// the namespace that it is told in are named.
func roomText(namespace string, victims []*eviction) string {
	const most = 8 // to name
	var names []string
	others := make(map[string]int) // by queue
	more := 0
	for _, e := range victims {
		switch home, _, _ := strings.Cut(e.Pod, "/"); {
		case home != namespace:
			others[e.queue]++
		case len(names) < most:
			names = append(names, e.Pod)
		default:
			more++
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	for _, queue := range sortedNames(others) {
		of := "of queue " + queue
		if queue == "" {
			of = "of other namespaces"
		}
		names = append(names, fmt.Sprintf("%d %s", others[queue], of))
	}
	first := victims[0]
	head, detail, _ := strings.Cut(first.why, ": ")
	verb, _, _ := strings.Cut(head, " for ")
	text := fmt.Sprintf("evicts %d pods for it: %s (%s: %s)", len(victims), strings.Join(names, ", "), verb, detail)
	if len(victims) == 1 {
		text = strings.Replace(text, "1 pods", "1 pod", 1)
	}
	if at := first.At; at.After(time.Now()) {
		text += ", at " + at.UTC().Format(time.RFC3339)
	}
	return text
}

// uses are the queues with what their workloads hold, by name. The loop's.
func (s *scheduler) uses() map[string]*engine.QueueUse {
	list := s.state.QueueUses()
	out := make(map[string]*engine.QueueUse, len(list))
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out
}

// gpu is the resource that GPUs are.
func (s *scheduler) gpu() string { return cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU) }
