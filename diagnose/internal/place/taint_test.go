package place

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

func TestKindOfTaint(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       taintKind
	}{
		{"nvidia.com/gpu", "present", TaintOfHardware},
		{"nvidia.com/gpu", "", TaintOfHardware},
		{"amd.com/gpu", "true", TaintOfHardware},
		{"sku", "gpu", TaintOfHardware},
		{"dedicated", "gpu", TaintOfHardware},
		{"gpu-type", "h100", TaintOfHardware},
		{"accelerator", "nvidia-l40s", TaintOfHardware},
		{"team", "vision", taintOfTeam},
		{"dedicated", "robotics", taintOfTeam},
		{"example.com/reserved-for", "llm", taintOfTeam},
		{"workload", "evaluation", taintOfOther},
		{"spot", "true", TaintOfTerms},
		{"kubernetes.azure.com/scalesetpriority", "spot", TaintOfTerms},
		{"cloud.google.com/gke-spot", "true", TaintOfTerms},
		{"karpenter.sh/capacity-type", "spot", TaintOfTerms},
		{"kubernetes.io/arch", "arm64", TaintOfTerms},
		{"node-role.kubernetes.io/control-plane", "", TaintOfRole},
		// Tolerating one of these lands work on a node that is not fit for it.
		{"node.kubernetes.io/not-ready", "", TaintOfState},
		{"node.kubernetes.io/unschedulable", "", TaintOfState},
		{"node.kubernetes.io/disk-pressure", "", TaintOfState},
		{"node.cloudprovider.kubernetes.io/uninitialized", "true", TaintOfState},
		{"karpenter.sh/disrupted", "", TaintOfState},
		{"karpenter.sh/unregistered", "", TaintOfState},
		{"ToBeDeletedByClusterAutoscaler", "1700000000", TaintOfState},
		{"readiness.k8s.io/gpu", "", TaintOfState},
		{"nvidia.com/gpu-driver-upgrade", "true", TaintOfState},
		{"gpu-health", "quarantined", TaintOfState},
		{"example.com/gpu-unhealthy", "", TaintOfState},
		{"node.cilium.io/agent-not-ready", "", TaintOfState},
		{"ebs.csi.aws.com/agent-not-ready", "", TaintOfState},
	} {
		taint := corev1.Taint{Key: c.key, Value: c.value, Effect: corev1.TaintEffectNoSchedule}
		if got := KindOfTaint(new(facts.Facts), taint); got != c.want {
			t.Errorf("%s is of kind %d, want %d", podspec.TaintText(taint), got, c.want)
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
	colleague.Spec.Tolerations = []corev1.Toleration{{Key: "team", Value: "vision"}}
	stranger := pod("a", nil)
	stranger.Spec.NodeName = "n"
	stranger.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
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
		{"a pod beside it that any team would let in", pod("a", nil), []*corev1.Pod{stranger}, false},
		{"a pod of another namespace", pod("b", nil), []*corev1.Pod{colleague}, false},
	} {
		k := &check.Case{Facts: &facts.Facts{Objects: facts.Objects{Pods: c.others}}, Pod: c.pod}
		if got := isOurs(k, taint); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
