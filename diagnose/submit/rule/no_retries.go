package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var noRetries = Rule{
	Code: "B104", Name: "no-retries-and-preemptible",
	Title: "A Job that may be evicted and is not tried again",
	Why:   "An eviction counts as a failure of the pod. With backoffLimit 0 the Job fails with the first one, and what it had done is lost, though nothing was wrong with it.",
	find:  findNoRetries,
}

func findNoRetries(c *Case) (out []Finding) {
	if path, ok := c.foreignBackoff(); ok {
		c.each(func(_ *workload.Part, pod *corev1.Pod) {
			if by := c.mayBeEvicted(pod); by != "" && len(out) == 0 {
				out = append(out, Finding{Path: path, Message: "backoffLimit is 0, and its pods may be evicted: " + by, Advice: "Raise backoffLimit."})
			}
		})
	}
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		j, ok := p.Maker.(*batchv1.Job)
		if !ok || j.Spec.BackoffLimit == nil || *j.Spec.BackoffLimit != 0 || j.Spec.BackoffLimitPerIndex != nil || forgives(j) {
			return
		}
		by := c.mayBeEvicted(pod)
		if by == "" {
			return
		}
		at := strings.TrimSuffix(p.Template, "/template")
		f := Finding{Path: at + "/backoffLimit", Message: "backoffLimit is 0, and its pods may be evicted: " + by}
		f.Advice, f.Patch = forgiving(j, pod, at)
		out = append(out, f)
	})
	return out
}

// foreignBackoff finds a backoffLimit of 0 in an object of a training operator, and where.
func (c *Case) foreignBackoff() (string, bool) {
	if _, foreign := c.Workload.Object.(*unstructured.Unstructured); !foreign {
		return "", false
	}
	for _, at := range [][]string{{"spec", "backoffLimit"}, {"spec", "runPolicy", "backoffLimit"}} {
		value, found, err := unstructured.NestedFieldNoCopy(c.Object, at...)
		if n, ok := value.(int64); ok && found && err == nil && n == 0 {
			return edit.Pointer(at...), true
		}
		if n, ok := value.(float64); ok && found && err == nil && n == 0 {
			return edit.Pointer(at...), true
		}
	}
	return "", false
}

// forgives says whether the Job does not count evictions.
func forgives(j *batchv1.Job) bool {
	if j.Spec.PodFailurePolicy == nil {
		return false
	}
	return slices.ContainsFunc(j.Spec.PodFailurePolicy.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.Action == batchv1.PodFailurePolicyActionIgnore && slices.ContainsFunc(r.OnPodConditions, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == corev1.DisruptionTarget
		})
	})
}

// mayBeEvicted names what may have the pod evicted, in words; "": nothing is known to.
func (c *Case) mayBeEvicted(p *corev1.Pod) string {
	if p.Spec.SchedulerName == berth {
		if value, _ := c.Inherited(p, v1alpha1.KeyPreemptible); value == "false" {
			return ""
		}
		return "Berth evicts work for others unless " + v1alpha1.KeyPreemptible + " is false"
	}
	if key := spotKey(p); key != "" {
		return "it is for nodes that a cloud takes back (" + key + ")"
	}
	if name := p.Spec.PriorityClassName; c.Bare && givesWay(name) {
		return "its priority class is called " + name
	}
	mine := ptr.Deref(p.Spec.Priority, 0)
	for _, class := range c.PriorityClasses {
		if class.Value > mine && !strings.HasPrefix(class.Name, "system-") && ptr.Deref(class.PreemptionPolicy, corev1.PreemptLowerPriority) != corev1.PreemptNever {
			return fmt.Sprintf("pods of priority class %s (%d) preempt those of %d", class.Name, class.Value, mine)
		}
	}
	return ""
}

// givesWay says whether the name speaks of work that gives way to other work.
func givesWay(name string) bool {
	return slices.ContainsFunc([]string{"preempt", "spot", "best-effort", "besteffort", "opportunistic", "scavenge", "interruptible"}, func(w string) bool {
		return strings.Contains(strings.ToLower(name), w)
	}) && !strings.Contains(strings.ToLower(name), "non") && !strings.Contains(strings.ToLower(name), "not-")
}

// spotKey is the label or taint by which the pod asks for, or puts up with, nodes that a cloud may take back; "": none.
func spotKey(p *corev1.Pod) string {
	spot := func(key, value string) bool {
		return givesWay(key[strings.LastIndexByte(key, '/')+1:]) && value != "false" || givesWay(value)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		if spot(key, p.Spec.NodeSelector[key]) {
			return key
		}
	}
	for _, t := range p.Spec.Tolerations {
		if spot(t.Key, t.Value) {
			return t.Key
		}
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Operator == corev1.NodeSelectorOpIn && slices.ContainsFunc(e.Values, func(v string) bool { return spot(e.Key, v) }) {
					return e.Key
				}
			}
		}
	}
	return ""
}

// berth is the schedulerName of Berth's scheduler.
const berth = "berth"
