package place

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/internal/spelling"
)

// Need is one thing that a pod asks of a node's labels: an entry of its nodeSelector, or an expression of its required
// node affinity.
type Need struct {
	Key        string
	Values     []string // any of them; nil: the label, whatever its value
	Term, Expr int      // in the affinity; -1: the nodeSelector
}

// Text is the need as a person would write it.
func (n Need) Text() string {
	switch len(n.Values) {
	case 0:
		return n.Key
	case 1:
		return n.Key + "=" + n.Values[0]
	}
	return n.Key + " in (" + strings.Join(n.Values, ", ") + ")"
}

// Field is where the pod asks for it.
func (n Need) Field() string {
	if n.Term < 0 {
		return fmt.Sprintf("spec.nodeSelector[%q]", n.Key)
	}
	return fmt.Sprintf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].matchExpressions[%d]", n.Term, n.Expr)
}

// Terms are those of the pod's required node affinity; any one of them has to match.
func Terms(s *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// NeedsOf lists what the pod asks of labels to be there, in a fixed order. Node names are not among them: see pins.
func NeedsOf(s *corev1.PodSpec) []Need {
	var out []Need
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if key != corev1.LabelHostname {
			out = append(out, Need{Key: key, Values: []string{s.NodeSelector[key]}, Term: -1, Expr: -1})
		}
	}
	for i, t := range Terms(s) {
		for j, e := range t.MatchExpressions {
			if e.Key != corev1.LabelHostname && (e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpExists) {
				out = append(out, Need{Key: e.Key, Values: e.Values, Term: i, Expr: j})
			}
		}
	}
	return out
}

// Met says whether labels satisfy the need.
func (n Need) Met(labels map[string]string) bool {
	v, ok := labels[n.Key]
	return ok && (len(n.Values) == 0 || slices.Contains(n.Values, v))
}

// ValuesOf counts the nodes per value of a label.
func ValuesOf(f *facts.Facts, key string) map[string]int {
	out := make(map[string]int)
	for _, n := range f.Nodes {
		if v, ok := n.Labels[key]; ok {
			out[v]++
		}
	}
	return out
}

// Unmet are the needs of the case's pod that no node of the cluster meets and no pool of Karpenter would, where they
// keep it off every node.
func Unmet(c *check.Case) []Need {
	if groupKnown(c) {
		return nil
	}
	all := NeedsOf(&c.Pod.Spec)
	dead := slices.DeleteFunc(all, func(n Need) bool {
		return slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return n.Met(node.Labels) }) || offered(c, n)
	})
	for i := range Terms(&c.Pod.Spec) {
		if !slices.ContainsFunc(dead, func(n Need) bool { return n.Term == i }) {
			return slices.DeleteFunc(dead, func(n Need) bool { return n.Term >= 0 }) // this term can be met
		}
	}
	return dead
}

// Awaits says whether the case's pod needs what no node has, and all of that is offered by pools that have no such node now.
func Awaits(c *check.Case) bool {
	lacking := slices.DeleteFunc(NeedsOf(&c.Pod.Spec), func(n Need) bool {
		return slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return n.Met(node.Labels) })
	})
	return len(lacking) > 0 && !slices.ContainsFunc(lacking, func(n Need) bool { return !offered(c, n) })
}

// groupKnown says whether the cluster autoscaler has a group of nodes for the pod, which has none at the moment: what
// the pod asks for exists then, and why no node comes is another question.
func groupKnown(c *check.Case) bool {
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

// offered says whether a node that Karpenter could make, or one of a pool that has none now, would meet the need.
func offered(c *check.Case, n Need) bool {
	return pooled(c.Facts, n) || slices.ContainsFunc(c.Foreign["NodePool.karpenter.sh"], func(pool *unstructured.Unstructured) bool {
		labels, _, _ := unstructured.NestedStringMap(pool.Object, "spec", "template", "metadata", "labels")
		if n.Met(labels) {
			return true
		}
		list, _, _ := unstructured.NestedSlice(pool.Object, "spec", "template", "spec", "requirements")
		named := false
		for _, item := range list {
			r, _ := item.(map[string]any)
			if key, _, _ := unstructured.NestedString(r, "key"); key != n.Key {
				continue
			}
			named = true
			values, _, _ := unstructured.NestedStringSlice(r, "values")
			if op, _, _ := unstructured.NestedString(r, "operator"); op != "In" || slices.ContainsFunc(values, func(v string) bool { return len(n.Values) == 0 || slices.Contains(n.Values, v) }) {
				return true
			}
		}
		return !named && providersOwn.MatchString(n.Key)
	})
}

// providersOwn are labels that a provisioner gives every node, with values that no pool has to list.
var providersOwn = regexp.MustCompile(`^(topology\.kubernetes\.io|failure-domain\.beta\.kubernetes\.io|node\.kubernetes\.io|kubernetes\.io|karpenter\.sh|karpenter\.k8s\.aws|karpenter\.azure\.com)/`)

// NearMiss returns the label that the need probably means: another value of its key, or another key with its value. It is
// the same word or GPU written differently; a different one is not near, however few letters differ.
func NearMiss(c *check.Case, n Need) (key, value string, ok bool) {
	if OnlyPartitioned(c, n) {
		return "", "", false
	}
	for _, want := range n.Values {
		if v, ok := Nearest(want, ValuesOf(c.Facts, n.Key), MeansSame); ok {
			return n.Key, v, true
		}
	}
	if len(ValuesOf(c.Facts, n.Key)) > 0 {
		return "", "", false
	}
	keys := make(map[string]int)
	for _, node := range c.Nodes {
		for k := range node.Labels {
			keys[k]++
		}
	}
	k, ok := Nearest(n.Key, keys, MeansSame)
	if !ok {
		return elsewhereNamed(c, n, keys)
	}
	for _, want := range n.Values {
		if v, ok := Nearest(want, ValuesOf(c.Facts, k), func(a, b string) bool { return a == b || MeansSame(a, b) }); ok {
			return k, v, true
		}
	}
	return "", "", false
}

var plainValue = regexp.MustCompile(`(?i)^(true|false|yes|no|none|enabled|disabled|present|[0-9]*|.)$`)

// ByAnotherName is a label of nodes that has a value of the need, where no node has its key: the value was known, and the key was not.
// Of several keys it is the one that is written most like it. Values that many labels have, such as true and numbers, tell nothing.
func ByAnotherName(c *check.Case, n Need) (key, value string, ok bool) {
	for _, want := range n.Values {
		keys := make(map[string]int)
		for _, node := range c.Nodes {
			for k, v := range node.Labels {
				if v == want && k != n.Key && !plainValue.MatchString(v) {
					keys[k]++
				}
			}
		}
		if len(keys) > 0 {
			return ByDistance(n.Key, keys)[0], want, true
		}
	}
	return "", "", false
}

// elsewhereNamed is a label of nodes that has the need's name under another prefix, and its value: beta.kubernetes.io/instance-type
// became node.kubernetes.io/instance-type.
func elsewhereNamed(c *check.Case, n Need, keys map[string]int) (key, value string, ok bool) {
	_, name, prefixed := strings.Cut(n.Key, "/")
	for _, k := range ByDistance(n.Key, keys) {
		_, other, has := strings.Cut(k, "/")
		if !prefixed || !has || other != name {
			continue
		}
		for _, want := range n.Values {
			if ValuesOf(c.Facts, k)[want] > 0 {
				return k, want, true
			}
		}
	}
	return "", "", false
}

// Nearest is the candidate that is meansSame and has the fewest letters different; of equals the one with most nodes.
func Nearest(want string, from map[string]int, meansSame func(a, b string) bool) (string, bool) {
	best, found := "", false
	for _, v := range ByDistance(want, from) {
		if meansSame(want, v) {
			best, found = v, true
			break
		}
	}
	return best, found
}

// ByDistance sorts the candidates: the one that is written most like it first.
func ByDistance(want string, from map[string]int) []string {
	return slices.SortedFunc(maps.Keys(from), func(a, b string) int {
		return cmp.Or(cmp.Compare(spelling.Distance(strings.ToLower(want), strings.ToLower(a)), spelling.Distance(strings.ToLower(want), strings.ToLower(b))),
			cmp.Compare(from[b], from[a]), cmp.Compare(a, b))
	})
}

var (
	idOf       = regexp.MustCompile(`^([a-z]{1,8}-)[0-9a-f]{12,}$`) // what a provider calls a thing: cr-0a1b2c3d4e5f60718
	modelWord  = regexp.MustCompile(`^([a-z]{1,4}\d{1,4}[a-z]{0,2})$`)
	memoryWord = regexp.MustCompile(`^\d+gb$`)
	wordParts  = regexp.MustCompile(`[^a-z0-9]+`)
)

// MeansSame says whether two different words are probably meant to be the same.
func MeansSame(a, b string) bool {
	if a == b || a == "" || b == "" {
		return false
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	if x, y := idOf.FindStringSubmatch(a), idOf.FindStringSubmatch(b); x != nil && y != nil {
		return x[1] == y[1] && len(a) == len(b) && spelling.Distance(a, b) <= 2 // nobody draws two that are so alike
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

// OnlyPartitioned says whether the need is for whole GPUs of a product that nodes have in MIG partitions alone: it is
// not the label that is wrong then.
func OnlyPartitioned(c *check.Case, n Need) bool {
	if len(n.Values) == 0 {
		return false
	}
	for v := range ValuesOf(c.Facts, n.Key) {
		if product, _, ok := strings.Cut(v, "-MIG-"); ok && slices.Contains(n.Values, product) {
			return true
		}
	}
	return false
}
