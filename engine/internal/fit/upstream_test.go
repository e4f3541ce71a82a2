package fit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

var (
	keys = []string{"a", "b", "x.io/c", "c/", "/c", "X.io/c", "a_b", "a b", "", "a/b/c", "x..io/c", "-x/c",
		strings.Repeat("x", 253) + "/c", strings.Repeat("x", 254) + "/c"}
	values = []string{"", "a", "b", "1", "-1", "+1", "07", "2", "1_0", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808", "-9223372036854775809", "a b", "-", "a-", "é",
		strings.Repeat("a", 63), strings.Repeat("a", 64)}
	sane = []string{"a", "b", "1", "2", "3"} // values without a fault, so that most requirements have none
	ops  = []Op{In, NotIn, Exists, DoesNotExist, Gt, Lt, "Like"}
)

// drawText takes mostly the first few, and sometimes any.
func drawText(t *rapid.T, name string, good, all []string) string {
	if rapid.IntRange(0, 9).Draw(t, name+" odd") == 9 {
		return rapid.SampledFrom(all).Draw(t, name)
	}
	return rapid.SampledFrom(good).Draw(t, name)
}

func drawRequirement(t *rapid.T) Requirement {
	r := Requirement{Key: drawText(t, "key", keys[:3], keys), Op: rapid.SampledFrom(ops).Draw(t, "op")}
	fitting := map[Op]int{In: 2, NotIn: 2, Gt: 1, Lt: 1, "Like": 1}[r.Op]
	n := fitting
	if rapid.IntRange(0, 9).Draw(t, "count odd") == 9 {
		n = rapid.IntRange(0, 2).Draw(t, "count")
	}
	for range n {
		r.Values = append(r.Values, drawText(t, "value", sane, values))
	}
	return r
}

func drawField(t *rapid.T) Requirement {
	r := Requirement{Key: "metadata.name", Op: rapid.SampledFrom([]Op{In, NotIn, Exists}).Draw(t, "op")}
	for range rapid.IntRange(0, 2).Draw(t, "count") {
		r.Values = append(r.Values, rapid.SampledFrom([]string{"n1", "n2", ""}).Draw(t, "name"))
	}
	return r
}

func drawTerm(t *rapid.T) Term {
	return Term{
		Labels: rapid.SliceOfN(rapid.Custom(drawRequirement), 0, 3).Draw(t, "labels"),
		Fields: rapid.SliceOfN(rapid.Custom(drawField), 0, 2).Draw(t, "fields"),
	}
}

func drawNode(t *rapid.T) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   rapid.SampledFrom([]string{"n1", "n2", ""}).Draw(t, "node"),
		Labels: map[string]string{},
	}}
	for _, key := range keys[:3] {
		if rapid.Bool().Draw(t, "has "+key) {
			node.Labels[key] = drawText(t, "label", sane, values)
		}
	}
	return node
}

func upstreamRequirements(rs []Requirement) []v1.NodeSelectorRequirement {
	var out []v1.NodeSelectorRequirement
	for _, r := range rs {
		out = append(out, v1.NodeSelectorRequirement{
			Key: r.Key, Operator: v1.NodeSelectorOperator(r.Op), Values: r.Values,
		})
	}
	return out
}

func upstreamTerm(t Term) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{
		MatchExpressions: upstreamRequirements(t.Labels),
		MatchFields:      upstreamRequirements(t.Fields),
	}
}

// TestTermsAsUpstream also covers single requirements, as terms of one.
func TestTermsAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := drawNode(t)
		terms := rapid.SliceOfN(rapid.Custom(drawTerm), 0, 3).Draw(t, "terms")
		var all []v1.NodeSelectorTerm
		var sound []Term
		for _, term := range terms {
			all = append(all, upstreamTerm(term))
			_, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: all[len(all)-1:]})
			if (err == nil) != (term.Check() == nil) {
				t.Fatalf("%+v: Check says %v, upstream %v", term, term.Check(), err)
			}
			if err == nil {
				sound = append(sound, term)
			}
		}
		lazy := nodeaffinity.NewLazyErrorNodeSelector(&v1.NodeSelector{NodeSelectorTerms: all})
		want, _ := lazy.Match(node)
		if got := matchesAny(sound, node.Labels, node.Name); got != want {
			t.Fatalf("got %v, upstream %v", got, want)
		}
	})
}

func TestWeighAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		node := drawNode(t)
		var prefs []Preference
		var upstream []v1.PreferredSchedulingTerm
		for range rapid.IntRange(0, 4).Draw(t, "preferences") {
			p := Preference{rapid.Int32Range(1, 100).Draw(t, "weight"), drawTerm(t)}
			if p.Check() != nil {
				continue // upstream refuses the whole list then
			}
			prefs = append(prefs, p)
			upstream = append(upstream, v1.PreferredSchedulingTerm{Weight: p.Weight, Preference: upstreamTerm(p.Term)})
		}
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(upstream)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := weigh(prefs, node.Labels, node.Name), terms.Score(node); got != want {
			t.Fatalf("got %d, upstream %d", got, want)
		}
	})
}

var effects = []Effect{"", NoSchedule, PreferNoSchedule, NoExecute}

func drawTaint(t *rapid.T) Taint {
	return Taint{
		Key:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
		Value:  rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"),
		Effect: rapid.SampledFrom(effects[1:]).Draw(t, "effect"),
	}
}

func drawToleration(t *rapid.T) Toleration {
	return Toleration{
		Key:    rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"),
		Op:     rapid.SampledFrom([]string{"", "Equal", "Exists", "Lt", "Gt", "Like"}).Draw(t, "op"),
		Value:  rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"),
		Effect: rapid.SampledFrom(effects).Draw(t, "effect"),
	}
}

func TestTaintsAsUpstream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		taints := rapid.SliceOfN(rapid.Custom(drawTaint), 0, 4).Draw(t, "taints")
		tolerations := rapid.SliceOfN(rapid.Custom(drawToleration), 0, 3).Draw(t, "tolerations")
		var upstream []v1.Toleration
		for _, o := range tolerations {
			upstream = append(upstream, v1.Toleration{
				Key: o.Key, Operator: v1.TolerationOperator(o.Op), Value: o.Value, Effect: v1.TaintEffect(o.Effect),
			})
		}
		var untolerated []Taint
		discouraging := 0
		for _, taint := range taints {
			their := v1.Taint{Key: taint.Key, Value: taint.Value, Effect: v1.TaintEffect(taint.Effect)}
			for i, o := range tolerations {
				want := corev1.TolerationsTolerateTaint(klog.Background(), upstream[i:i+1], &their, true)
				if got := o.Tolerates(taint); got != want {
					t.Fatalf("%+v and %v: got %v, upstream %v", o, taint, got, want)
				}
			}
			if corev1.TolerationsTolerateTaint(klog.Background(), upstream, &their, true) {
				continue
			}
			if taint.Effect == PreferNoSchedule {
				discouraging++
			} else {
				untolerated = append(untolerated, taint)
			}
		}
		if diff := cmp.Diff(untolerated, Untolerated(taints, tolerations, nil)); diff != "" {
			t.Fatalf("untolerated (-want +got):\n%s", diff)
		}
		if got := Discouraging(taints, tolerations); got != discouraging {
			t.Fatalf("%d discourage, upstream %d", got, discouraging)
		}
	})
}

// FuzzRequirement compares one requirement with upstream: whether it is well formed, and if so whether a
// node with one label meets it.
func FuzzRequirement(f *testing.F) {
	f.Add("pool", "In", "a,b", "pool", "a")
	f.Add("x.io/gpus", "Gt", "4", "x.io/gpus", "+08")
	f.Add("pool", "NotIn", "a b", "other", "")
	f.Add("pool", "DoesNotExist", "", "pool", "1")
	f.Fuzz(func(t *testing.T, key, op, list, label, value string) {
		r := Requirement{Key: key, Op: Op(op)}
		if list != "" {
			r.Values = strings.Split(list, ",")
		}
		term := upstreamTerm(Term{Labels: []Requirement{r}})
		selector, err := nodeaffinity.NewNodeSelector(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}})
		if (err == nil) != (r.Check() == nil) {
			t.Fatalf("Check says %v, upstream %v", r.Check(), err)
		}
		if err != nil {
			return
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{label: value}}}
		if got, want := r.Matches(node.Labels), selector.Match(node); got != want {
			t.Fatalf("%v on %q=%q: got %v, upstream %v", r, label, value, got, want)
		}
	})
}
