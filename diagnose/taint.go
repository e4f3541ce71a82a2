package diagnose

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/engine/why"
)

// taintKind is what a taint is there for, and so who may tolerate it.
type taintKind int

const (
	taintOfState    taintKind = iota // the node is not to be used now: tolerating it lands work on a broken node
	taintOfRole                      // the control plane's own nodes
	taintOfHardware                  // keeps work that needs no device off nodes that have them: who needs one tolerates it
	taintOfTeam                      // keeps the node for somebody
	taintOfOther
)

var (
	stateWords = regexp.MustCompile(`(?i)not-?ready|unready|unreachable|unschedulable|unavailable|unhealthy|unhealth|uninitialized|unregistered|pressure|out-of-service|shutdown|quarantin|maintenance|upgrad|drain|cordon|delet|disrupt|remov|startup|repair|broken|fault|failed|failing|degraded|suspect|evict|xid`)
	stateHomes = regexp.MustCompile(`^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io|readiness\.k8s\.io|karpenter\.sh|node\.cilium\.io|.*\.csi\..*)/`)
	deviceKeys = regexp.MustCompile(`^(nvidia\.com|amd\.com|habana\.ai|gpu\.intel\.com|intel\.com/gpu|google\.com/tpu|aws\.amazon\.com/neuron|furiosa\.ai|k8s\.amazonaws\.com/accelerator|cloud\.google\.com/gke-accelerator)`)
	deviceWord = regexp.MustCompile(`(?i)(^|[^a-z])(gpus?|nvidia|cuda|accelerators?|tpus?|mig|[abhltv]\d{2,3}s?|gb?\d{3})([^a-z]|$)`)
	teamWord   = regexp.MustCompile(`(?i)(^|[^a-z])(teams?|tenants?|owner|owned-by|dedicated|dedicated-to|reserved|reserved-for|projects?|departments?|orgs?|organization|customers?|groups?|squad|user|namespace|cost-?center|lab|for)([^a-z]|$)`)
)

// kindOfTaint says what the taint is there for.
func kindOfTaint(f *facts.Facts, t corev1.Taint) taintKind {
	switch {
	case gpustack.IsStateTaint(f, t.Key) || stateHomes.MatchString(t.Key) || stateWords.MatchString(t.Key) || stateWords.MatchString(t.Value):
		return taintOfState
	case strings.HasPrefix(t.Key, "node-role.kubernetes.io/"):
		return taintOfRole
	case deviceKeys.MatchString(t.Key):
		return taintOfHardware
	case teamWord.MatchString(t.Key):
		if deviceWord.MatchString(t.Value) {
			return taintOfHardware
		}
		return taintOfTeam
	case deviceWord.MatchString(t.Key) || deviceWord.MatchString(t.Value):
		return taintOfHardware
	}
	return taintOfOther
}

// taintText is the taint as kubectl takes it.
func taintText(t corev1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// untolerated are the node's taints that the pod does not tolerate, a cordon's aside.
func (n *NodeFit) untolerated() []corev1.Taint {
	var out []corev1.Taint
	for _, c := range n.Removed {
		if c.Kind != why.ByTaint {
			continue
		}
		if i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return taintText(t) == c.Detail }); i >= 0 {
			out = append(out, n.Spec.Taints[i])
		}
	}
	return out
}

// mayTolerate says whether the pod's owner may add a toleration of the taint: it is about devices, which the pod asks
// for, or keeps the node for those whom the pod is of. Thousands of nodes may have the same one, so that it is said once.
func (c *Case) mayTolerate(t corev1.Taint) bool {
	key := taintText(t)
	may, ok := c.tolerable[key]
	if !ok {
		if c.tolerable == nil {
			c.tolerable = make(map[string]bool)
		}
		may = c.toleratesByRight(t)
		c.tolerable[key] = may
	}
	return may
}

func (c *Case) toleratesByRight(t corev1.Taint) bool {
	switch kindOfTaint(c.Facts, t) {
	case taintOfHardware:
		return len(facts.ExtendedOf(c.Pod)) > 0 || len(c.Pod.Spec.ResourceClaims) > 0
	case taintOfTeam, taintOfOther:
		return c.isOurs(t)
	}
	return false
}

// isOurs says whether the taint names the pod's namespace or team, or other pods of the namespace tolerate it.
func (c *Case) isOurs(t corev1.Taint) bool {
	if t.Value != "" {
		if t.Value == c.Pod.Namespace {
			return true
		}
		for k, v := range c.Pod.Labels {
			if v == t.Value && teamWord.MatchString(k) {
				return true
			}
		}
	}
	for _, p := range c.Pods {
		if p.Namespace == c.Pod.Namespace && p.Spec.NodeName != "" && namesTaint(p, t) {
			return true
		}
	}
	return false
}

// namesTaint says whether the pod tolerates this very taint, not just any.
func namesTaint(p *corev1.Pod, t corev1.Taint) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.Key == t.Key && (o.Effect == "" || o.Effect == t.Effect) && (o.Operator == corev1.TolerationOpExists || o.Value == t.Value)
	})
}

// onlyTaintsToTolerate says whether nothing keeps the pod off the node but taints that its owner may tolerate.
func (c *Case) onlyTaintsToTolerate(n *NodeFit) bool {
	if len(n.Barred) > 0 || len(n.Removed) == 0 {
		return false
	}
	taints := n.untolerated()
	return len(taints) == len(n.Removed) && !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return !c.mayTolerate(t) })
}

// keptForOthers says whether the taint keeps its node for somebody who is not the pod's owner: it says so, or those
// who tolerate it are of other namespaces.
func (c *Case) keptForOthers(t corev1.Taint) bool {
	switch kindOfTaint(c.Facts, t) {
	case taintOfTeam:
		return !c.isOurs(t)
	case taintOfOther:
		return !c.isOurs(t) && slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool { return p.Namespace != c.Pod.Namespace && namesTaint(p, t) })
	}
	return false
}
