package convert_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// limits are the constants of limits.go, by name.
func limits(t *testing.T) map[string]int {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, name := range v.Names {
				value, err := types.Eval(fset, nil, token.NoPos, types.ExprString(v.Values[i]))
				if err != nil {
					t.Fatal(err)
				}
				n, _ := constant.Int64Val(value.Value)
				out[name.Name] = int(n)
			}
		}
	}
	return out
}

// waiting is a pod of ours that asks for nothing.
func waiting() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Annotations: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
}

// podWith has a pod made and read; what the engine is told to be wrong with it is returned.
func podWith(make func(p *corev1.Pod, n int)) func(n int) string {
	return func(n int) string {
		p := waiting()
		make(p, n)
		return convert.Pod(p, convert.Options{}).Invalid
	}
}

func annotated(key, value string, n int) *corev1.Pod {
	p := waiting()
	p.Annotations[key] = strings.Repeat(value, n)
	return p
}

func requirement(n int) corev1.NodeSelectorRequirement {
	r := corev1.NodeSelectorRequirement{Key: "k", Operator: corev1.NodeSelectorOpIn}
	for i := range n {
		r.Values = append(r.Values, fmt.Sprintf("v%d", i))
	}
	return r
}

func required(p *corev1.Pod, terms ...corev1.NodeSelectorTerm) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

func keepApart(p *corev1.Pod, t corev1.PodAffinityTerm) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{t}}}
}

// gangOf makes a gang of pods, and returns what is wrong with it.
func gangOf(pods ...*corev1.Pod) string { return convert.NativeGang(pods, nil, nil).Invalid }

func member(i int, key, value string) *corev1.Pod {
	p := waiting()
	p.Name = fmt.Sprintf("p%03d", i)
	p.Annotations[v1alpha1.KeyGang], p.Annotations[v1alpha1.KeySubgroup], p.Annotations[key] = "g", fmt.Sprintf("s%d", i), value
	return p
}

func nodeWith(make func(n *corev1.Node, count int)) func(int) string {
	return func(count int) string {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{}}}
		make(n, count)
		got := convert.Node(n, convert.Options{})
		if slices.ContainsFunc(got.Taints, func(t engine.Taint) bool { return t.Key == "berth.dev/over-limit" }) {
			return "the limit"
		}
		return ""
	}
}

func queueWith(make func(q *v1alpha1.QueueSpec, n int)) func(int) string {
	return func(n int) string {
		q := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
		make(&q.Spec, n)
		s, err := convert.OpenTo(q)
		if err != nil {
			if !s.Empty() && s.Matches(nil) {
				return "it is open all the same"
			}
			return err.Error()
		}
		return ""
	}
}

func budgetWith(make func(s *metav1.LabelSelector, n int)) func(int) string {
	return func(n int) string {
		b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
		make(b.Spec.Selector, n)
		if convert.BudgetOverLimits(b) {
			return "the limit"
		}
		return ""
	}
}

func labelValues(n int) []string { return requirement(n).Values }

func topologyOf(text string) string {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{v1alpha1.KeyGPUTopology: text}}}
	return convert.TopologyProblem(n)
}

// atLimit says, for each limit, what is wrong with an object that has n of what is limited; "": nothing.
var atLimit = map[string]func(n int) string{
	"MaxContainers": podWith(func(p *corev1.Pod, n int) {
		p.Spec.InitContainers, p.Spec.Containers = make([]corev1.Container, n/2), make([]corev1.Container, n-n/2)
	}),
	"MaxResources": podWith(func(p *corev1.Pod, n int) {
		list := corev1.ResourceList{}
		for i := range n {
			list[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = resource.MustParse("1")
		}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}
	}),
	"MaxHostPorts": podWith(func(p *corev1.Pod, n int) {
		p.Spec.Containers = make([]corev1.Container, 2)
		for i := range n {
			c := &p.Spec.Containers[i%2]
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: int32(i + 1)}, corev1.ContainerPort{ContainerPort: 80})
		}
	}),
	"MaxSelectorLabels": podWith(func(p *corev1.Pod, n int) {
		p.Spec.NodeSelector = make(map[string]string)
		for i := range n {
			p.Spec.NodeSelector[fmt.Sprint("l", i)] = "v"
		}
	}),
	"MaxTolerations": podWith(func(p *corev1.Pod, n int) { p.Spec.Tolerations = make([]corev1.Toleration, n) }),
	"MaxAffinityTerms": podWith(func(p *corev1.Pod, n int) {
		required(p, make([]corev1.NodeSelectorTerm, n-1)...)
		p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = make([]corev1.PreferredSchedulingTerm, 1)
	}),
	"MaxAffinityExpressions": podWith(func(p *corev1.Pod, n int) {
		required(p, corev1.NodeSelectorTerm{MatchExpressions: make([]corev1.NodeSelectorRequirement, n-1)}, corev1.NodeSelectorTerm{MatchFields: make([]corev1.NodeSelectorRequirement, 1)})
	}),
	"MaxAffinityValues": podWith(func(p *corev1.Pod, n int) {
		required(p, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement(n / 2), requirement(n - n/2)}})
	}),
	"MaxPodLabels": podWith(func(p *corev1.Pod, n int) {
		p.Labels = make(map[string]string)
		for i := range n {
			p.Labels[fmt.Sprint("l", i)] = "v"
		}
	}),
	"MaxRules": podWith(func(p *corev1.Pod, n int) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
		for i := range n {
			t := corev1.PodAffinityTerm{TopologyKey: "zone"}
			switch at := p.Spec.Affinity; i % 5 {
			case 0:
				at.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(at.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
			case 1:
				at.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(at.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, t)
			case 2:
				at.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(at.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: t})
			case 3:
				at.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(at.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: t})
			default:
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: "zone", MaxSkew: 1})
			}
		}
	}),
	"MaxRuleExpressions": podWith(func(p *corev1.Pod, n int) {
		s := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		for range n - 3 {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpExists})
		}
		other := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, LabelSelector: other}}
		keepApart(p, corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: s, NamespaceSelector: other})
	}),
	"MaxRuleValues": podWith(func(p *corev1.Pod, n int) {
		keepApart(p, corev1.PodAffinityTerm{
			TopologyKey: "zone", Namespaces: labelValues(n / 2),
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: labelValues(n - n/2)}}},
		})
	}),
	"MaxVolumes": podWith(func(p *corev1.Pod, n int) { p.Spec.Volumes = make([]corev1.Volume, n) }),
	"MaxGPUModels": podWith(func(p *corev1.Pod, n int) {
		p.Annotations[v1alpha1.KeyGPUModel] = strings.TrimSuffix(strings.Repeat("H100,", n), ",")
	}),
	"MaxNameBytes": func(n int) string {
		return convert.Pod(annotated(v1alpha1.KeyQueue, "q", n), convert.Options{}).Invalid
	},
	"MaxValueBytes": func(n int) string {
		p := annotated(v1alpha1.KeyGPUFraction, "0", n)
		p.Annotations[v1alpha1.KeyGPUFraction] = "0.5" + strings.Repeat("0", n-3)
		return convert.Pod(p, convert.Options{}).Invalid
	},
	"MaxPodBytes": podWith(func(p *corev1.Pod, n int) {
		p.Spec.NodeSelector = make(map[string]string)
		for i := range 16 {
			p.Spec.NodeSelector[fmt.Sprintf("%02d", i)] = strings.Repeat("v", n/16-2)
		}
		p.Spec.NodeSelector["00"] += strings.Repeat("v", n%16)
	}),
	"MaxGangSize": func(n int) string {
		p := annotated(v1alpha1.KeyGang, "g", 1)
		p.Annotations[v1alpha1.KeyMin] = strconv.Itoa(n)
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(n)}
		g := convert.PodGroup(group)
		convert.GroupTerms(&g, group, nil)
		if native := gangOf(p); (native == "") != (g.Invalid == "") {
			return fmt.Sprintf("of a native gang %q, of a PodGroup %q", native, g.Invalid)
		}
		return g.Invalid
	},
	"MaxSubgroups": func(n int) string {
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, member(i, v1alpha1.KeySpread, "rack"))
		}
		return gangOf(pods...)
	},
	"MaxLevels": func(n int) string {
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, member(i, v1alpha1.KeySpread, fmt.Sprint("level", i)))
		}
		return gangOf(pods...)
	},
	"MaxNodeLabels": nodeWith(func(n *corev1.Node, count int) {
		for i := range count - 1 {
			n.Labels[fmt.Sprint("l", i)] = "v"
		}
		n.Status.DeclaredFeatures = []string{"f"}
	}),
	"MaxNodeTaints": nodeWith(func(n *corev1.Node, count int) { n.Spec.Taints = make([]corev1.Taint, count) }),
	"MaxNodeResources": nodeWith(func(n *corev1.Node, count int) {
		for i := range count {
			n.Status.Allocatable[corev1.ResourceName(fmt.Sprint("r", i))] = resource.MustParse("1")
		}
	}),
	"MaxNodeGPUs": func(n int) string { // above it the node offers GPUs that nobody knows more of
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"nvidia.com/gpu.product": "H100"}}}
		node.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
		got := convert.Node(node, convert.Options{})
		if got.Allocatable.Get("nvidia.com/gpu") != int64(n) {
			return "it offers other GPUs"
		}
		if len(got.Devices) != n {
			return "the limit"
		}
		return ""
	},
	"MaxNodeImages": func(n int) string { // above it the largest count
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		for i := range n {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprint("im", i)}, SizeBytes: int64(1<<30 + i)})
		}
		got := convert.Node(node, convert.Options{}).Images
		if !slices.ContainsFunc(got, func(im engine.Image) bool { return im.Name == fmt.Sprint("im", n-1) }) {
			return "the largest is missing"
		}
		if len(got) != n {
			return "the limit"
		}
		return ""
	},
	"MaxTopologyBytes": func(n int) string {
		return topologyOf("[]" + strings.Repeat(" ", n-2))
	},
	"MaxDeviceName": func(n int) string {
		return topologyOf(fmt.Sprintf(`[{"id":%q}]`, strings.Repeat("g", n)))
	},
	"MaxQueueResources": queueWith(func(q *v1alpha1.QueueSpec, n int) { q.Resources = make([]v1alpha1.QueueResource, n) }),
	"MaxQueueBudgets":   queueWith(func(q *v1alpha1.QueueSpec, n int) { q.Budgets = make([]v1alpha1.QueueBudget, n) }),
	"MaxQueueBookings":  queueWith(func(q *v1alpha1.QueueSpec, n int) { q.Bookings = make([]v1alpha1.QueueBooking, n) }),
	"MaxQueueExpressions": queueWith(func(q *v1alpha1.QueueSpec, n int) {
		q.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		for range n - 1 {
			q.NamespaceSelector.MatchExpressions = append(q.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpExists})
		}
	}),
	"MaxQueueValues": queueWith(func(q *v1alpha1.QueueSpec, n int) {
		q.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: labelValues(n)}}}
	}),
	"MaxBudgetExpressions": budgetWith(func(s *metav1.LabelSelector, n int) { s.MatchExpressions = make([]metav1.LabelSelectorRequirement, n) }),
	"MaxBudgetValues": budgetWith(func(s *metav1.LabelSelector, n int) {
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Values: labelValues(n)}}
	}),
	"MaxBudgets": func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("b%04d", n-i)
		}
		if counted := convert.CountedBudgets(names); len(counted) < n && counted[0] == "b0001" {
			return "the limit"
		}
		return ""
	},
	"MaxQuoteBytes": func(n int) string { // what is longer is shortened
		p := annotated(v1alpha1.KeyMaxRun, "x", n)
		told := convert.Pod(p, convert.Options{}).Invalid
		if strings.Contains(told, `"`+strings.Repeat("x", n)+`"`) {
			return ""
		}
		if !strings.Contains(told, fmt.Sprintf("(%d bytes)", n)) {
			return "its length is not told: " + told
		}
		return "the limit"
	},
	"MaxProblems": func(n int) string { // more are counted
		var pods []*corev1.Pod
		for i := range n {
			pods = append(pods, member(i, v1alpha1.KeyBalanced, "maybe"))
		}
		told := gangOf(pods...)
		if strings.Count(told, "maybe") == n {
			return ""
		}
		return strings.ReplaceAll(told, "and 1 more", "the limit")
	},
}

// Every limit has an object at it, which is fine, and one above it, which is not, and says so.
func TestLimits(t *testing.T) {
	all := limits(t)
	for name := range atLimit {
		if all[name] == 0 {
			t.Errorf("%s is no limit", name)
		}
	}
	for name, limit := range all {
		t.Run(name, func(t *testing.T) {
			wrong := atLimit[name]
			if wrong == nil {
				t.Fatal("no test: add it to atLimit")
			}
			if got := wrong(limit); got != "" {
				t.Errorf("at the limit of %d: %s", limit, got)
			}
			if got := wrong(limit + 1); !strings.Contains(got, "limit") && !strings.Contains(got, strconv.Itoa(limit)) {
				t.Errorf("above the limit of %d: %q", limit, got)
			}
		})
	}
}

// docs/limits.md has a row for every limit, with its value.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(Max[A-Za-z]+)` \\| ([0-9,]+) \\|").FindAllStringSubmatch(string(page), -1) {
		told[row[1]] = strings.ReplaceAll(row[2], ",", "")
	}
	for name, limit := range limits(t) {
		if told[name] != strconv.Itoa(limit) {
			t.Errorf("%s is %d, and in docs/limits.md %q", name, limit, told[name])
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("docs/limits.md has %s, which is no limit", name)
	}
}

// What is bound takes its room, however large its object is, and keeps nothing else of it.
func TestBoundPodOverLimit(t *testing.T) {
	p := waiting()
	p.Spec.NodeName, p.Spec.Tolerations = "n", make([]corev1.Toleration, 100_000)
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}}}
	got := convert.Pod(p, convert.Options{})
	if got.Invalid != "" || got.Requests.Get("nvidia.com/gpu") != 8 || len(got.Tolerations) > 0 || got.NodeName != "n" {
		t.Errorf("%+v", got)
	}
}

// A gang waits for what one of its members is above.
func TestGangOverLimit(t *testing.T) {
	p := member(1, v1alpha1.KeyGPUModel, strings.Repeat("A100,", 20_000))
	if got := gangOf(member(0, v1alpha1.KeySpread, "rack"), p); !strings.Contains(got, "pod p001: ") || len(got) > 1000 {
		t.Errorf("%.2000s", got)
	}
	if got := convert.Pod(p, convert.Options{}); len(got.GPU.Models) > 0 {
		t.Errorf("%d models are kept", len(got.GPU.Models))
	}
}
