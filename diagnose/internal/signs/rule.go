package signs

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

// stockReasons are how the reasons begin that the plugins of kube-scheduler give for a node, in 1.30 to 1.37
// (pkg/scheduler/framework/plugins). What a scheduler gives beside them is a rule of its own, which no other has.
var stockReasons = []string{
	"Insufficient ", "Too many pods", "node(s) had ", "node(s) didn't ", "node(s) did not ", "node(s) were unschedulable", "node(s) exceed max volume count", "node(s) unavailable due to ", "node(s) not ",
	"node is filtered out by the prefilter result", "node had resize preemption disabled", "node declared features", "cannot allocate all claims", "resourceclaim", "ResourceClaim", "claim ", "pod has unbound immediate PersistentVolumeClaims",
	"persistentvolumeclaim ", "PersistentVolume", "no nodes available", "running \"", "Preemption ", "No preemption victims", "waiting for ", "timed out allocating", "unresolvable", "minCount", "gang ", "request ", "pod group", "PodGroup",
	"VolumeBindingMode ", "cannot schedule extended resource claim", "cannot fit resource", "no feasible placements found", "extra pods could not be placed", "node allocatable resource claim", "PVC ",
}

// stockEnds are how those end that begin with a name.
var stockEnds = []string{" CSI driver is not installed on the node"}

// schooled are schedulers whose words have checks of their own.
var schooled = []string{"", "default-scheduler", "kai-scheduler", "volcano"}

// ownRule is the reason for which a scheduler other than Berth's refuses the pod and that no plugin of Kubernetes gives; "": all
// that it says is known.
func ownRule(c *check.Case, message string) string {
	if _, told := life.ReadVerdict(message); told || message == "" || berths(c) {
		return ""
	}
	stock := func(text string) bool {
		return slices.ContainsFunc(stockReasons, func(s string) bool { return strings.HasPrefix(text, s) }) || slices.ContainsFunc(stockEnds, func(s string) bool { return strings.HasSuffix(text, s) })
	}
	said, ok := kubescheduler.Parse(message)
	switch {
	case !ok && !slices.Contains(schooled, c.Pod.Spec.SchedulerName):
		return message
	case !ok:
		return ""
	case said.Whole != "" && !stock(said.Whole):
		return said.Whole
	}
	for _, r := range said.Reasons {
		if r.Nodes > 0 && !stock(r.Text) {
			return r.Text
		}
	}
	return ""
}

// berths says whether Berth's scheduler has the pod: it answers for it, or has written why it waits.
func berths(c *check.Case) bool {
	return c.Pod.Spec.SchedulerName == "berth" || c.ServedFor(c.Pod) != nil || slices.ContainsFunc(c.Pod.Status.Conditions, func(k corev1.PodCondition) bool { return k.Type == v1alpha1.PodPendingCause })
}
