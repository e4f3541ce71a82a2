package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// The most that is read of what people write. The API server bounds an object by its size alone, 1.5 MB, in which one
// pod can name 20,000 GPU models. Time and memory of a cycle grow with each of these numbers, so each has a bound here,
// far above what manifests have. BenchmarkCycleAtLimits plans a thousand pods at all of them. docs/limits.md lists them with reasons; tests hold the page and these constants together,
// and try each at the limit and one above it.
//
// What is above a limit is never cut and used: a pod waits with the reason InvalidObject and the limit's name, a gang
// with it; a node takes no new pods; a queue takes none either.
const (
	// Of a pod.
	MaxContainers          = 32   // containers and init containers together
	MaxResources           = 16   // names of resources that its containers request
	MaxHostPorts           = 16   // of all containers
	MaxSelectorLabels      = 32   // spec.nodeSelector
	MaxTolerations         = 32   // spec.tolerations
	MaxAffinityTerms       = 16   // node affinity, required and preferred together
	MaxAffinityExpressions = 32   // in all these terms
	MaxAffinityValues      = 256  // in all these expressions
	MaxPodLabels           = 64   // metadata.labels
	MaxRules               = 16   // pod affinity and anti-affinity, required and preferred, and spread constraints together
	MaxRuleExpressions     = 64   // labels and expressions in all these rules
	MaxRuleValues          = 256  // values and namespaces in all these rules
	MaxVolumes             = 64   // spec.volumes
	MaxGPUModels           = 32   // names in berth.dev/gpu-model
	MaxNameBytes           = 512  // a queue, gang, subgroup, user or level by name, and a GPU model
	MaxValueBytes          = 2048 // a value under any other of our keys
	// MaxPodBytes is of all text above together: a pod at every other limit would be ten times as large, and what is
	// kept of ten thousand pods must fit into memory.
	MaxPodBytes = 16 << 10

	// Of a gang.
	MaxGangSize  = 1_000_000 // its minimum and its size, and those of a PodGroup
	MaxSubgroups = 64        // groups of pods with a minimum of their own
	MaxLevels    = 8         // topology levels that it names, of all its subgroups

	// Of a node.
	MaxNodeLabels    = 1024     // labels and declared features
	MaxNodeTaints    = 128      // spec.taints
	MaxNodeResources = 128      // status.allocatable
	MaxNodeGPUs      = 256      // of one node, where their model is known
	MaxTopologyBytes = 64 << 10 // berth.dev/gpu-topology
	MaxNodeImages    = 128      // names in status.images, of the largest; others are passed over
	MaxDeviceName    = 64       // bytes of a GPU's ID, and of an NVLink domain inside a node

	// Of a BerthQueue; where its kind has a bound too, the API server refuses more.
	MaxQueueResources   = 16  // spec.resources
	MaxQueueBudgets     = 8   // spec.budgets
	MaxQueueBookings    = 32  // spec.bookings
	MaxQueueExpressions = 64  // spec.namespaceSelector: labels and expressions; and nodeSelector of a booking
	MaxQueueValues      = 512 // in all these expressions

	// Of a PodDisruptionBudget. One above them counts as covering no pod when victims are chosen; the API server, which
	// decides about the eviction, honours it all the same.
	MaxBudgetExpressions = 64  // spec.selector: labels and expressions
	MaxBudgetValues      = 512 // in all these expressions
	MaxBudgets           = 256 // of one namespace; of more, the first by name count

	// MaxQuoteBytes is how much of a value is quoted in a condition, an event or an answer.
	MaxQuoteBytes = 64
	// MaxProblems is how many things that are wrong with one object are told.
	MaxProblems = 8
)

// tally counts what an object lists against the limits.
type tally struct {
	problems []string
	bytes    int
}

// most notes that there are more than the limit of what is described.
func (t *tally) most(n, limit int, what string) {
	if n > limit {
		t.problems = append(t.problems, fmt.Sprintf("%s: more than %d, the limit", what, limit))
	}
}

// text adds texts to the sum.
func (t *tally) text(texts ...string) {
	for _, s := range texts {
		t.bytes += len(s)
	}
}

// overLimits says which limits the pod is above, at most MaxProblems of them; none: nil. Its cost is linear in the
// size of the pod.
func overLimits(p *corev1.Pod) []string {
	t := &tally{}
	s := &p.Spec
	t.most(len(s.Containers)+len(s.InitContainers), MaxContainers, "spec.containers and spec.initContainers")
	t.resources(s)
	t.most(hostPortCount(s), MaxHostPorts, "host ports of its containers")
	t.most(len(s.NodeSelector), MaxSelectorLabels, "spec.nodeSelector")
	//archtest:any-order a sum of whole numbers
	for key, value := range s.NodeSelector {
		t.text(key, value)
	}
	t.most(len(s.Tolerations), MaxTolerations, "spec.tolerations")
	for i := range s.Tolerations {
		t.text(s.Tolerations[i].Key, s.Tolerations[i].Value)
	}
	t.affinity(s.Affinity)
	t.rules(p)
	t.most(len(s.Volumes), MaxVolumes, "spec.volumes")
	t.keys(&p.ObjectMeta)
	t.most(t.bytes, MaxPodBytes, "bytes of its selector, affinity, spread, tolerations, ports, resource names and GPU models")
	return t.problems[:min(len(t.problems), MaxProblems)]
}

// resources counts the names that the containers and the pod itself request or limit.
func (t *tally) resources(s *corev1.PodSpec) {
	names := make(map[corev1.ResourceName]bool)
	add := func(lists ...corev1.ResourceList) {
		for _, list := range lists {
			for _, name := range slices.Sorted(maps.Keys(list)) { // which names are the first too many is not left to chance
				if !names[name] && len(names) <= MaxResources {
					names[name] = true
					t.text(string(name))
				}
			}
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			add(list[i].Resources.Requests, list[i].Resources.Limits)
		}
	}
	if s.Resources != nil {
		add(s.Resources.Requests, s.Resources.Limits)
	}
	add(s.Overhead)
	t.most(len(names), MaxResources, "names of resources that it requests")
}

func hostPortCount(s *corev1.PodSpec) (n int) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for j := range list[i].Ports {
				if list[i].Ports[j].HostPort != 0 {
					n++
				}
			}
		}
	}
	return n
}

func (t *tally) affinity(a *corev1.Affinity) {
	if a == nil || a.NodeAffinity == nil {
		return
	}
	var terms []corev1.NodeSelectorTerm
	if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		terms = slices.Clip(r.NodeSelectorTerms)
	}
	for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
	}
	expressions, values := 0, 0
	for i := range terms {
		for _, list := range [][]corev1.NodeSelectorRequirement{terms[i].MatchExpressions, terms[i].MatchFields} {
			expressions += len(list)
			for j := range list {
				values += len(list[j].Values)
				t.text(list[j].Key)
				t.text(list[j].Values...)
			}
		}
	}
	t.most(len(terms), MaxAffinityTerms, "terms of spec.affinity.nodeAffinity")
	t.most(expressions, MaxAffinityExpressions, "expressions of spec.affinity.nodeAffinity")
	t.most(values, MaxAffinityValues, "values of spec.affinity.nodeAffinity")
}

// bytesOf is the most that a value under the key may have.
func bytesOf(key string) int {
	switch key {
	case v1alpha1.KeyGPUModel:
		return MaxPodBytes
	case v1alpha1.KeyQueue, v1alpha1.KeyGang, v1alpha1.KeySubgroup, v1alpha1.KeyUser, v1alpha1.KeyTopologyRequired, v1alpha1.KeyTopologyPreferred, v1alpha1.KeySegment, v1alpha1.KeySpread:
		return MaxNameBytes
	}
	return MaxValueBytes
}

// keys looks at the values under our own keys.
func (t *tally) keys(o *metav1.ObjectMeta) {
	for _, key := range knownKeys() {
		t.most(len(asked(o, key)), bytesOf(key), "bytes of "+key)
	}
	models := asked(o, v1alpha1.KeyGPUModel)
	t.text(models)
	t.most(strings.Count(models, ",")+min(1, len(models)), MaxGPUModels, "models in "+v1alpha1.KeyGPUModel)
	for name := range strings.SplitSeq(models, ",") {
		if len(name) > MaxNameBytes {
			t.most(len(name), MaxNameBytes, "bytes of a model in "+v1alpha1.KeyGPUModel)
			return
		}
	}
}

// overLimit makes of the pod one that the engine reads in no time: it takes its room where it is bound, and waits as
// invalid where it is not. It can be evicted, and not moved: nobody knows where the next one may run.
func overLimit(p *corev1.Pod) engine.Spec {
	takes := requests(p)
	if len(takes) > MaxResources {
		slices.SortFunc(takes, func(a, b engine.Amount) int { return byWeight(a.Resource, b.Resource) })
		takes = sorted(takes[:MaxResources])
	}
	return engine.Spec{Requests: takes, NodeName: p.Spec.NodeName}
}

// byWeight orders resources by name, behind those that are of every pod and those that count GPUs: of a bound pod these
// count whatever else it says that it takes.
func byWeight(a, b string) int {
	rank := func(name string) int {
		switch {
		case !strings.Contains(name, "/"):
			return 0
		case strings.HasSuffix(name, "/gpu") || strings.HasPrefix(name, "nvidia.com/"):
			return 1
		}
		return 2
	}
	return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
}

// gangLimits says which limits the gang is above, or one of its pods, or the objects that describe it.
func gangLimits(g *engine.Gang, pods []*corev1.Pod, by ...*metav1.ObjectMeta) []string {
	t := &tally{}
	t.most(max(g.Min, g.Size), MaxGangSize, "members of the gang")
	t.most(len(g.Groups), MaxSubgroups, "subgroups")
	levels := make(map[string]bool)
	name := func(l engine.Layout) {
		for _, level := range []string{l.Required, l.Preferred, l.SegmentLevel, l.Spread} {
			if level != "" && len(levels) <= MaxLevels {
				levels[level] = true
			}
		}
	}
	name(g.Layout)
	for i := range g.Groups {
		name(g.Groups[i].Layout)
	}
	t.most(len(levels), MaxLevels, "topology levels that the gang names")
	for _, o := range by {
		t.keys(o)
	}
	for _, p := range pods {
		for _, problem := range overLimits(p) {
			if t.problems = append(t.problems, "pod "+p.Name+": "+problem); len(t.problems) >= MaxProblems {
				return t.problems
			}
		}
	}
	return t.problems
}

// keyLimits says which limits the keys of the object are above.
func keyLimits(o *metav1.ObjectMeta) []string {
	t := &tally{}
	t.keys(o)
	return t.problems
}

// QueueOverLimits says which limits the queue is above; none: nil.
func QueueOverLimits(q *v1alpha1.QueueSpec) []string {
	t := &tally{}
	t.most(len(q.Resources), MaxQueueResources, "spec.resources")
	t.most(len(q.Budgets), MaxQueueBudgets, "spec.budgets")
	t.most(len(q.Bookings), MaxQueueBookings, "spec.bookings")
	expressions, values := selectorSize(q.NamespaceSelector)
	t.most(expressions, MaxQueueExpressions, "labels and expressions of spec.namespaceSelector")
	t.most(values, MaxQueueValues, "values of spec.namespaceSelector")
	for i := range q.Bookings[:min(len(q.Bookings), MaxQueueBookings)] {
		t.most(len(q.Bookings[i].NodeSelector), MaxQueueExpressions, "nodeSelector of booking "+quoted(q.Bookings[i].Name))
	}
	return t.problems[:min(len(t.problems), MaxProblems)]
}

func selectorSize(s *metav1.LabelSelector) (expressions, values int) {
	if s == nil {
		return 0, 0
	}
	expressions = len(s.MatchLabels) + len(s.MatchExpressions)
	for i := range s.MatchExpressions {
		values += len(s.MatchExpressions[i].Values)
	}
	return expressions, values + len(s.MatchLabels)
}

// CountedBudgets are those of a namespace's budgets, by name, that are looked at, sorted.
func CountedBudgets(names []string) []string {
	names = slices.Sorted(slices.Values(names))
	return names[:min(len(names), MaxBudgets)]
}

// BudgetOverLimits says whether the selector of the disruption budget is above a limit.
func BudgetOverLimits(b *policyv1.PodDisruptionBudget) bool {
	expressions, values := selectorSize(b.Spec.Selector)
	return expressions > MaxBudgetExpressions || values > MaxBudgetValues
}

// overLimitTaint is on nodes, as the engine sees them, that are above a limit.
var overLimitTaint = engine.Taint{Key: v1alpha1.KeyPrefix + "over-limit", Effect: engine.NoSchedule}

// nodeOverLimits says whether the node is above a limit.
func nodeOverLimits(n *corev1.Node) bool {
	return len(n.Labels)+len(n.Status.DeclaredFeatures) > MaxNodeLabels || len(n.Spec.Taints) > MaxNodeTaints || len(n.Status.Allocatable) > MaxNodeResources
}

// clipped is the text, or so much of it that it is still seen to be above the limit.
func clipped(s string, limit int) string {
	if len(s) <= limit+1 {
		return s
	}
	return strings.ToValidUTF8(s[:limit+1], "?")
}

// quoted is a value as it is told to people: in quotes, and shortened with its length where it is long.
func quoted(s string) string {
	if len(s) <= MaxQuoteBytes {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q... (%d bytes)", strings.ToValidUTF8(s[:MaxQuoteBytes], ""), len(s))
}

// said is what is wrong with an object in one line.
func said(problems []string) string {
	if len(problems) > MaxProblems {
		problems = append(problems[:MaxProblems:MaxProblems], fmt.Sprintf("and %d more", len(problems)-MaxProblems))
	}
	return strings.Join(problems, "; ")
}
