package kubelet

import corev1 "k8s.io/api/core/v1"

// phaseOf derives the pod's phase from its containers, by the kubelet's rules. over says that no
// container will be started again whatever the restart policy: the pod is being stopped.
func phaseOf(pod *corev1.Pod, containers []*container, over bool) corev1.PodPhase {
	var n counts
	begun := n.count(pod, containers)
	switch {
	case n.initFailed > 0:
		return corev1.PodFailed
	case n.initPending > 0, n.sidecarPending > 0 && !begun, n.waiting > 0:
		return corev1.PodPending
	case n.running > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	case !over && n.restartable > 0:
		return corev1.PodRunning
	case n.succeeded == n.stopped:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// counts are a pod's containers by what they mean for its phase.
type counts struct {
	initPending, initFailed int // init containers that run to completion
	sidecarPending          int
	running, waiting        int // sidecars and main containers; waiting: never ran
	mains                   int
	stopped                 int // main containers that ran and do not run now
	restartable, succeeded  int // of those
}

// count adds all containers up and says whether a main container was ever started.
func (n *counts) count(pod *corev1.Pod, containers []*container) (begun bool) {
	for _, c := range containers {
		switch c.kind {
		case initContainer:
			n.countInit(pod, c)
		case sidecar:
			n.countSidecar(&c.status)
		case mainContainer:
			n.countMain(pod, c)
			begun = begun || c.status.State.Running != nil || lastExit(&c.status) != nil
		}
	}
	return begun
}

func (n *counts) countInit(pod *corev1.Pod, c *container) {
	exit := lastExit(&c.status)
	switch {
	case c.status.State.Running != nil, exit == nil:
		n.initPending++
	case exit.ExitCode == 0 && c.status.State.Terminated != nil: // done
	case exit.ExitCode == 0: // to be run again, after a reboot
		n.initPending++
	case shouldRestart(pod, c, exit):
		n.initPending++
	default:
		n.initFailed++
	}
}

func (n *counts) countSidecar(s *corev1.ContainerStatus) {
	switch {
	case s.State.Running != nil:
		n.running++
		if !isTrue(s.Started) {
			n.sidecarPending++
		}
	case lastExit(s) == nil:
		n.sidecarPending++
		n.waiting++
	}
}

func (n *counts) countMain(pod *corev1.Pod, c *container) {
	n.mains++
	exit := lastExit(&c.status)
	switch {
	case c.status.State.Running != nil:
		n.running++
	case exit == nil:
		n.waiting++
	default:
		n.stopped++
		if exit.ExitCode == 0 {
			n.succeeded++
		}
		if shouldRestart(pod, c, exit) {
			n.restartable++
		}
	}
}

// lastExit is how the container last ended, if it does not run now; nil if it never ran.
func lastExit(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// shouldRestart says whether a container that ended so is started again. A container's own policy
// comes before the pod's, its rules before both. What was taken down to restart the whole pod is
// started whatever they say.
func shouldRestart(pod *corev1.Pod, c *container, exit *corev1.ContainerStateTerminated) bool {
	code := exit.ExitCode
	if exit.Reason == restartingAll || matchingRule(c.spec, code) != nil {
		return true
	}
	policy := pod.Spec.RestartPolicy
	if c.spec.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.spec.RestartPolicy)
	}
	switch {
	case c.kind == debugContainer:
		return false
	case policy == corev1.RestartPolicyNever:
		return false
	case policy == corev1.RestartPolicyOnFailure, c.kind == initContainer:
		return code != 0
	}
	return true
}

// matchingRule is the first of a container's restart rules that is about the code; nil: none is.
func matchingRule(spec *corev1.Container, code int32) *corev1.ContainerRestartRule {
	for i := range spec.RestartPolicyRules {
		if rule := &spec.RestartPolicyRules[i]; ruleMatches(rule.ExitCodes, code) {
			return rule
		}
	}
	return nil
}

func ruleMatches(rule *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if rule == nil {
		return false
	}
	listed := false
	for _, v := range rule.Values {
		listed = listed || v == code
	}
	return listed == (rule.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}
