package diagnose

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

func TestKindOfTaint(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       taintKind
	}{
		{"nvidia.com/gpu", "present", taintOfHardware},
		{"nvidia.com/gpu", "", taintOfHardware},
		{"amd.com/gpu", "true", taintOfHardware},
		{"sku", "gpu", taintOfHardware},
		{"dedicated", "gpu", taintOfHardware},
		{"gpu-type", "h100", taintOfHardware},
		{"accelerator", "nvidia-l40s", taintOfHardware},
		{"team", "vision", taintOfTeam},
		{"dedicated", "robotics", taintOfTeam},
		{"example.com/reserved-for", "llm", taintOfTeam},
		{"workload", "evaluation", taintOfOther},
		{"spot", "true", taintOfOther},
		{"node-role.kubernetes.io/control-plane", "", taintOfRole},
		// Tolerating one of these lands work on a node that is not fit for it.
		{"node.kubernetes.io/not-ready", "", taintOfState},
		{"node.kubernetes.io/unschedulable", "", taintOfState},
		{"node.kubernetes.io/disk-pressure", "", taintOfState},
		{"node.cloudprovider.kubernetes.io/uninitialized", "true", taintOfState},
		{"karpenter.sh/disrupted", "", taintOfState},
		{"karpenter.sh/unregistered", "", taintOfState},
		{"ToBeDeletedByClusterAutoscaler", "1700000000", taintOfState},
		{"readiness.k8s.io/gpu", "", taintOfState},
		{"nvidia.com/gpu-driver-upgrade", "true", taintOfState},
		{"gpu-health", "quarantined", taintOfState},
		{"example.com/gpu-unhealthy", "", taintOfState},
		{"node.cilium.io/agent-not-ready", "", taintOfState},
		{"ebs.csi.aws.com/agent-not-ready", "", taintOfState},
	} {
		taint := corev1.Taint{Key: c.key, Value: c.value, Effect: corev1.TaintEffectNoSchedule}
		if got := kindOfTaint(new(facts.Facts), taint); got != c.want {
			t.Errorf("%s is of kind %d, want %d", taintText(taint), got, c.want)
		}
	}
}

// A taint names its owner by the namespace, by a label of the pod, or by whom it lets in.
func TestTaintIsOurs(t *testing.T) {
	taint := corev1.Taint{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}
	pod := func(namespace string, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Labels = namespace, labels
		return p
	}
	colleague := pod("a", nil)
	colleague.Spec.NodeName = "n"
	colleague.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	for _, c := range []struct {
		what   string
		pod    *corev1.Pod
		others []*corev1.Pod
		want   bool
	}{
		{"its namespace", pod("vision", nil), nil, true},
		{"its label", pod("a", map[string]string{"team": "vision"}), nil, true},
		{"a label that says nothing of teams", pod("a", map[string]string{"app": "vision"}), nil, false},
		{"a pod beside it", pod("a", nil), []*corev1.Pod{colleague}, true},
		{"a pod of another namespace", pod("b", nil), []*corev1.Pod{colleague}, false},
	} {
		k := &Case{Facts: &facts.Facts{Objects: facts.Objects{Pods: c.others}}, Pod: c.pod}
		if got := k.isOurs(taint); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
