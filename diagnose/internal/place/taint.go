package place

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// taintKind is what a taint is there for, and so who may tolerate it.
type taintKind int

const (
	TaintOfState    taintKind = iota // the node is not to be used now: tolerating it lands work on a broken node
	TaintOfRole                      // the control plane's own nodes
	TaintOfHardware                  // keeps work that needs no device off nodes that have them: who needs one tolerates it
	TaintOfTerms                     // keeps work off that does not know the node's terms: it may be taken back, or has another architecture
	taintOfTeam                      // keeps the node for a team
	taintOfOther
)

var (
	stateWords = regexp.MustCompile(`(?i)not-?ready|unready|unreachable|unschedulable|unavailable|unhealthy|unhealth|uninitialized|unregistered|pressure|out-of-service|shutdown|quarantin|maintenance|upgrad|drain|cordon|delet|disrupt|remov|startup|repair|broken|fault|failed|failing|degraded|suspect|evict|xid`)
	stateHomes = regexp.MustCompile(`^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io|readiness\.k8s\.io|karpenter\.sh|node\.cilium\.io|.*\.csi\..*)/`)
	deviceKeys = regexp.MustCompile(`^(nvidia\.com|amd\.com|habana\.ai|gpu\.intel\.com|intel\.com/gpu|google\.com/tpu|aws\.amazon\.com/neuron|furiosa\.ai|k8s\.amazonaws\.com/accelerator|cloud\.google\.com/gke-accelerator)`)
	DeviceWord = regexp.MustCompile(`(?i)(^|[^a-z])(gpus?|nvidia|cuda|accelerators?|tpus?|mig|[abhltv]\d{2,3}s?|gb?\d{3})([^a-z]|$)`)
	// terms are the words of taints with which clouds mark machines that they may take back, and of another architecture.
	spotWord = regexp.MustCompile(`(?i)(^|[^a-z])(spot|preemptible|interruptible|low-?priority)([^a-z]|$)`)
	archKey  = regexp.MustCompile(`^(beta\.)?kubernetes\.io/arch$`)
	teamWord = regexp.MustCompile(`(?i)(^|[^a-z])(teams?|tenants?|owner|owned-by|dedicated|dedicated-to|reserved|reserved-for|projects?|departments?|orgs?|organization|customers?|groups?|squad|user|namespace|cost-?center|lab|for)([^a-z]|$)`)
)

// capacityType is Karpenter's label, which people make a taint of too.
const capacityType = "karpenter.sh/capacity-type"

// KindOfTaint says what the taint is there for.
func KindOfTaint(f *facts.Facts, t corev1.Taint) taintKind {
	switch {
	case gpustack.IsStateTaint(f, t.Key) || stateHomes.MatchString(t.Key) && t.Key != capacityType || stateWords.MatchString(t.Key) || stateWords.MatchString(t.Value):
		return TaintOfState
	case spotWord.MatchString(t.Key) || spotWord.MatchString(t.Value) || archKey.MatchString(t.Key):
		return TaintOfTerms
	case strings.HasPrefix(t.Key, "node-role.kubernetes.io/"):
		return TaintOfRole
	case deviceKeys.MatchString(t.Key):
		return TaintOfHardware
	case teamWord.MatchString(t.Key):
		if DeviceWord.MatchString(t.Value) {
			return TaintOfHardware
		}
		return taintOfTeam
	case DeviceWord.MatchString(t.Key) || DeviceWord.MatchString(t.Value):
		return TaintOfHardware
	}
	return taintOfOther
}

// MayTolerate says whether the pod's owner may add a toleration of the taint: it is about devices, which the pod asks
// for, or keeps the node for those whom the pod is of. Thousands of nodes may have the same one, so that it is said once.
func MayTolerate(c *check.Case, t corev1.Taint) bool {
	key := podspec.TaintText(t)
	may, ok := c.Tolerable[key]
	if !ok {
		if c.Tolerable == nil {
			c.Tolerable = make(map[string]bool)
		}
		may = toleratesByRight(c, t)
		c.Tolerable[key] = may
	}
	return may
}

func toleratesByRight(c *check.Case, t corev1.Taint) bool {
	switch KindOfTaint(c.Facts, t) {
	case TaintOfHardware:
		return len(facts.ExtendedOf(c.Pod)) > 0 || len(c.Pod.Spec.ResourceClaims) > 0
	case TaintOfTerms:
		return true
	case taintOfTeam, taintOfOther:
		return isOurs(c, t)
	}
	return false
}

// TermsOf is what a pod that tolerates the taints has to live with; "": nothing.
func TermsOf(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		switch {
		case archKey.MatchString(t.Key):
			out = append(out, fmt.Sprintf("the image is built for %s", t.Value))
		case spotWord.MatchString(t.Key) || spotWord.MatchString(t.Value):
			out = append(out, "the work stands it when its machines are taken back")
		}
	}
	return strings.Join(slices.Compact(out), ", and ")
}

// isOurs says whether the taint names the pod's namespace or team, or other pods of the namespace tolerate it: those that tolerate
// any value count where they are on a node that has this one.
func isOurs(c *check.Case, t corev1.Taint) bool {
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
		if p.Namespace == c.Pod.Namespace && p.Spec.NodeName != "" && namesTaint(p, t) && (namesValue(p, t) || hasTaint(c.NodeNamed(p.Spec.NodeName), t)) {
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

// NearToleration words a toleration of the pod that is for the taint but for its value, its effect, or how its key is written; "": there is none.
func NearToleration(p *corev1.Pod, t corev1.Taint) string {
	for _, o := range p.Spec.Tolerations {
		same := o.Key == t.Key
		if !same && !MeansSame(o.Key, t.Key) {
			continue
		}
		value := o.Operator != corev1.TolerationOpExists && o.Value != t.Value
		effect := o.Effect != "" && o.Effect != t.Effect
		text := o.Key
		if o.Operator != corev1.TolerationOpExists {
			text += "=" + o.Value
		}
		if o.Effect != "" {
			text += ":" + string(o.Effect)
		}
		switch {
		case !same:
			return text + ", which is another key"
		case value && effect:
			return text + ", which is of another value and another effect"
		case value:
			return text + ", which is of another value"
		case effect:
			return text + ", which is of another effect"
		}
	}
	return ""
}

// namesValue says whether the pod tolerates the taint by its value, and not by its key alone.
func namesValue(p *corev1.Pod, t corev1.Taint) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
		return o.Key == t.Key && o.Operator != corev1.TolerationOpExists && o.Value == t.Value
	})
}

func hasTaint(n *corev1.Node, t corev1.Taint) bool {
	return n != nil && slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) && o.Value == t.Value })
}

// OnlyTaintsToTolerate says whether nothing keeps the pod off the node but taints that its owner may tolerate.
func OnlyTaintsToTolerate(c *check.Case, n *check.NodeFit) bool {
	if len(n.ExcludedBy) > 0 || len(n.Removed) == 0 {
		return false
	}
	taints := n.Untolerated()
	return len(taints) == len(n.Removed) && !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return !MayTolerate(c, t) })
}

// KeptForOthers says whether the taint keeps its node for another than the pod's owner: it says so, or those
// who tolerate it are of other namespaces.
func KeptForOthers(c *check.Case, t corev1.Taint) bool {
	switch KindOfTaint(c.Facts, t) {
	case taintOfTeam:
		return !isOurs(c, t)
	case taintOfOther:
		return !isOurs(c, t) && slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool { return p.Namespace != c.Pod.Namespace && namesTaint(p, t) })
	}
	return false
}
