package diagnose_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestCrashingAgentIsQuoted has a device plugin end again and again: the answer says how, in the words of its log, and does not
// offer the restart that the kubelet tries by itself.
func TestCrashingAgentIsQuoted(t *testing.T) {
	c := loadCase(t, "device-plugin-missing/crash-loop.yaml", fixedSeed())
	var agent *corev1.Pod
	for _, p := range c.facts.Pods {
		for i := range p.Status.ContainerStatuses {
			if s := &p.Status.ContainerStatuses[i]; s.State.Waiting != nil {
				agent = p
				s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}
				c.facts.Logs[p.Namespace+"/"+p.Name+"/"+s.Name] = "starting\nerror parsing config: unknown field \"timeSlicng\"\n"
			}
		}
	}
	if agents := c.facts.CrashingAgents(); len(agents) != 1 || agents[0] != agent {
		t.Fatalf("agents that crash: %v", agents)
	}
	got := c.diagnose(t)
	if !strings.Contains(got.Summary, `exit code 2: error parsing config: unknown field "timeSlicng"`) {
		t.Errorf("the answer does not quote the log: %s", got.Summary)
	}
	if len(got.Fixes) > 0 || !strings.Contains(got.Advice, "--previous") {
		t.Errorf("fixes %v, advice %q", got.Fixes, got.Advice)
	}
}
