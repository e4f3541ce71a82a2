package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/internal/spelling"
)

// need is one thing that a pod asks of a node's labels: an entry of its nodeSelector, or an expression of its required
// node affinity.
type need struct {
	key        string
	values     []string // any of them; nil: the label, whatever its value
	term, expr int      // in the affinity; -1: the nodeSelector
}

// text is the need as a person would write it.
func (n need) text() string {
	switch len(n.values) {
	case 0:
		return n.key
	case 1:
		return n.key + "=" + n.values[0]
	}
	return n.key + " in (" + strings.Join(n.values, ", ") + ")"
}

// field is where the pod asks for it.
func (n need) field() string {
	if n.term < 0 {
		return fmt.Sprintf("spec.nodeSelector[%q]", n.key)
	}
	return fmt.Sprintf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].matchExpressions[%d]", n.term, n.expr)
}

// terms are those of the pod's required node affinity; any one of them has to match.
func terms(s *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// needsOf lists what the pod asks of labels to be there, in a fixed order. Node names are not among them: see pins.
func needsOf(s *corev1.PodSpec) []need {
	var out []need
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if key != corev1.LabelHostname {
			out = append(out, need{key: key, values: []string{s.NodeSelector[key]}, term: -1, expr: -1})
		}
	}
	for i, t := range terms(s) {
		for j, e := range t.MatchExpressions {
			if e.Key != corev1.LabelHostname && (e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpExists) {
				out = append(out, need{key: e.Key, values: e.Values, term: i, expr: j})
			}
		}
	}
	return out
}

// met says whether labels satisfy the need.
func (n need) met(labels map[string]string) bool {
	v, ok := labels[n.key]
	return ok && (len(n.values) == 0 || slices.Contains(n.values, v))
}

// valuesOf counts the nodes per value of a label.
func valuesOf(f *facts.Facts, key string) map[string]int {
	out := make(map[string]int)
	for _, n := range f.Nodes {
		if v, ok := n.Labels[key]; ok {
			out[v]++
		}
	}
	return out
}

// unmet are the needs of the case's pod that no node of the cluster meets and no pool of Karpenter would, where they
// keep it off every node.
func (c *Case) unmet() []need {
	if c.groupKnown() {
		return nil
	}
	all := needsOf(&c.Pod.Spec)
	dead := slices.DeleteFunc(all, func(n need) bool {
		return slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return n.met(node.Labels) }) || c.offered(n)
	})
	for i := range terms(&c.Pod.Spec) {
		if !slices.ContainsFunc(dead, func(n need) bool { return n.term == i }) {
			return slices.DeleteFunc(dead, func(n need) bool { return n.term >= 0 }) // this term can be met
		}
	}
	return dead
}

// groupKnown says whether the cluster autoscaler has a group of nodes for the pod, which has none at the moment: what
// the pod asks for exists then, and why no node comes is another question.
func (c *Case) groupKnown() bool {
	if !c.Exists {
		return false
	}
	said := c.EventsOf(c.Pod, "TriggeredScaleUp", "NotTriggerScaleUp")
	if len(said) == 0 {
		return false
	}
	newest := said[0]
	return newest.Reason == "TriggeredScaleUp" || slices.ContainsFunc(
		[]string{"max node group size reached", "in backoff after failed scale-up", "not ready for scale-up", "max total nodes in cluster reached"},
		func(words string) bool { return strings.Contains(newest.Message, words) })
}

// offered says whether a node that Karpenter could make would meet the need.
func (c *Case) offered(n need) bool {
	return slices.ContainsFunc(c.Foreign["NodePool.karpenter.sh"], func(pool *unstructured.Unstructured) bool {
		labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
		if n.met(labels) {
			return true
		}
		list, _, _ := unstructured.NestedSlice(pool.Object, "spec", "template", "spec", "requirements")
		named := false
		for _, item := range list {
			r, _ := item.(map[string]any)
			if key, _, _ := unstructured.NestedString(r, "key"); key != n.key {
				continue
			}
			named = true
			values, _, _ := unstructured.NestedStringSlice(r, "values")
			if op, _, _ := unstructured.NestedString(r, "operator"); op != "In" || slices.ContainsFunc(values, func(v string) bool { return len(n.values) == 0 || slices.Contains(n.values, v) }) {
				return true
			}
		}
		return !named && providersOwn.MatchString(n.key)
	})
}

// providersOwn are labels that a provisioner gives every node, with values that no pool has to list.
var providersOwn = regexp.MustCompile(`^(topology\.kubernetes\.io|failure-domain\.beta\.kubernetes\.io|node\.kubernetes\.io|kubernetes\.io|karpenter\.sh|karpenter\.k8s\.aws|karpenter\.azure\.com)/`)

// near returns the label that the need probably means: another value of its key, or another key with its value. It is
// the same word or GPU written differently; a different one is not near, however few letters differ.
func (c *Case) near(n need) (key, value string, ok bool) {
	if c.onlyPartitioned(n) {
		return "", "", false
	}
	for _, want := range n.values {
		if v, ok := nearest(want, valuesOf(c.Facts, n.key), meansSame); ok {
			return n.key, v, true
		}
	}
	if len(valuesOf(c.Facts, n.key)) > 0 {
		return "", "", false
	}
	keys := make(map[string]int)
	for _, node := range c.Nodes {
		for k := range node.Labels {
			keys[k]++
		}
	}
	k, ok := nearest(n.key, keys, meansSame)
	if !ok {
		return "", "", false
	}
	for _, want := range n.values {
		if v, ok := nearest(want, valuesOf(c.Facts, k), func(a, b string) bool { return a == b || meansSame(a, b) }); ok {
			return k, v, true
		}
	}
	return "", "", false
}

// nearest is the candidate that is meansSame and has the fewest letters different; of equals the one with most nodes.
func nearest(want string, from map[string]int, meansSame func(a, b string) bool) (string, bool) {
	best, found := "", false
	for _, v := range byDistance(want, from) {
		if meansSame(want, v) {
			best, found = v, true
			break
		}
	}
	return best, found
}

// byDistance sorts the candidates: the one that is written most like it first.
func byDistance(want string, from map[string]int) []string {
	return slices.SortedFunc(maps.Keys(from), func(a, b string) int {
		return cmp.Or(cmp.Compare(spelling.Distance(strings.ToLower(want), strings.ToLower(a)), spelling.Distance(strings.ToLower(want), strings.ToLower(b))),
			cmp.Compare(from[b], from[a]), cmp.Compare(a, b))
	})
}

var (
	modelWord  = regexp.MustCompile(`^([a-z]{1,4}\d{1,4}[a-z]{0,2})$`)
	memoryWord = regexp.MustCompile(`^\d+gb$`)
	wordParts  = regexp.MustCompile(`[^a-z0-9]+`)
)

// meansSame says whether two different words are probably meant to be the same.
func meansSame(a, b string) bool {
	if a == b || a == "" || b == "" {
		return false
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	if m := modelOf(a); m != "" && m == modelOf(b) && sharesVendor(a, b) {
		return memoryOf(a) == "" || memoryOf(b) == "" || memoryOf(a) == memoryOf(b)
	}
	return spelling.Typo(a, b)
}

// modelOf is the GPU that a product label is about: a100 of NVIDIA-A100-SXM4-80GB.
func modelOf(product string) string {
	for _, p := range wordParts.Split(product, -1) {
		if modelWord.MatchString(p) && !memoryWord.MatchString(p) && !strings.HasPrefix(p, "sxm") && !strings.HasPrefix(p, "hbm") && !strings.HasPrefix(p, "mig") {
			return p
		}
	}
	return ""
}

func memoryOf(product string) string {
	for _, p := range wordParts.Split(product, -1) {
		if memoryWord.MatchString(p) {
			return p
		}
	}
	return ""
}

// sharesVendor says whether both could be product labels of GPU Feature Discovery, old or new: more than the model.
func sharesVendor(a, b string) bool {
	long := func(s string) bool { return len(wordParts.Split(s, -1)) > 1 }
	return long(a) && long(b) || strings.Contains(a, "nvidia") || strings.Contains(b, "nvidia")
}

// onlyPartitioned says whether the need is for whole GPUs of a product that nodes have in MIG partitions alone: it is
// not the label that is wrong then.
func (c *Case) onlyPartitioned(n need) bool {
	if len(n.values) == 0 {
		return false
	}
	for v := range valuesOf(c.Facts, n.key) {
		if product, _, ok := strings.Cut(v, "-MIG-"); ok && slices.Contains(n.values, product) {
			return true
		}
	}
	return false
}
