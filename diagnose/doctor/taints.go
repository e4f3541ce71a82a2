package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var taintsItem = Item{
	Code: "taints", Title: "taints of GPU nodes are tolerated, and equal in a pool", Owner: check.Platform, Needs: []string{"nodes", "pods"}, Find: taintsFound,
	Meaning: "A taint that nobody tolerates takes the node's GPUs from everybody; a GPU node without the taint of the others fills up with work that needs no GPU.",
}

func taintsFound(c *Cluster) Result {
	r := Result{Looked: fmt.Sprintf("taints of %s", wording.Number(len(c.gpus), "node"))}
	r.Findings = append(r.Findings, c.intolerable()...)
	for _, pool := range gather(c.gpus, poolName) {
		r.Findings = append(r.Findings, c.bare(pool)...)
	}
	return r
}

// lasting are the node's taints that keep pods off and tell of no passing state.
func (c *Cluster) lasting(n *gpuNode) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectPreferNoSchedule || gpustack.IsStateTaint(c.Facts, t.Key) || gpustack.AppliedTaint(n.Node)(t.Key)
	})
}

// intolerable are taints of GPU nodes that no GPU work in the cluster tolerates.
func (c *Cluster) intolerable() (out []Finding) {
	specs := c.gpuSpecs()
	if len(specs) == 0 {
		return nil // what will come is unknown
	}
	tolerated := make(map[corev1.Taint]bool)
	key := func(n *gpuNode) string {
		for _, t := range c.lasting(n) {
			t.TimeAdded = nil
			known, ok := tolerated[t]
			if !ok {
				known = slices.ContainsFunc(specs, func(s *corev1.PodSpec) bool {
					return slices.ContainsFunc(s.Tolerations, func(o corev1.Toleration) bool { return podspec.Tolerates(&o, &t) })
				})
				tolerated[t] = known
			}
			if !known {
				return podspec.TaintText(t)
			}
		}
		return ""
	}
	waiting := slices.ContainsFunc(c.pods, func(p gpuPod) bool { return p.Spec.NodeName == "" })
	for _, nodes := range gather(c.gpus, key) {
		f := Finding{
			Severity: Note, Message: fmt.Sprintf("no GPU work tolerates the taint %s of %s: %s", key(nodes[0]), named(nodes), gpusOf(nodes)),
			Next: "give the work that these nodes are for a toleration, or remove the taint",
		}
		if waiting {
			f.Severity, f.Message = Warn, f.Message+", and GPU work waits"
		}
		out = append(out, nodesAs(f, nodes, func(n *gpuNode) []facts.Evidence { return []facts.Evidence{n.evidence("spec.taints", key(n))} }))
	}
	return out
}

// gpuSpecs are the specs of pods that ask for GPUs, and of what makes them, one for each set of tolerations.
func (c *Cluster) gpuSpecs() []*corev1.PodSpec {
	var out []*corev1.PodSpec
	seen := make(map[string]bool)
	add := func(s *corev1.PodSpec) {
		key := fmt.Sprint(s.Tolerations)
		if !seen[key] {
			seen[key] = true
			out = append(out, s)
		}
	}
	for i := range c.pods {
		add(&c.pods[i].Spec)
	}
	for _, k := range facts.Kinds {
		switch k.Kind {
		case "Deployment", "ReplicaSet", "StatefulSet", "Job", "CronJob", "JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "RayCluster", "LeaderWorkerSet":
		default:
			continue
		}
		for _, o := range k.List(&c.Objects) {
			if t := facts.TemplateOf(o); t != nil && len(gpusAsked(&corev1.Pod{Spec: t.Spec})) > 0 {
				add(&t.Spec)
			}
		}
	}
	return out
}

// bare are nodes of a pool without a taint that more than half of the pool have.
func (c *Cluster) bare(pool []*gpuNode) (out []Finding) {
	count := make(map[string]int)
	var order []string
	for _, n := range pool {
		for _, t := range c.lasting(n) {
			text := podspec.TaintText(t)
			if count[text] == 0 {
				order = append(order, text)
			}
			count[text]++
		}
	}
	slices.Sort(order)
	for _, text := range order {
		if 2*count[text] <= len(pool) || count[text] == len(pool) || count[text] < 2 {
			continue
		}
		var without []*gpuNode
		for _, n := range pool {
			if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return podspec.TaintText(t) == text }) {
				without = append(without, n)
			}
		}
		out = append(out, nodesAs(Finding{
			Severity: Warn, Message: fmt.Sprintf("%s %s no taint %s, and %s of %s: work without GPUs may take the CPUs there", named(without), wording.InNumber(len(without), "has", "have"), text, wording.Number(count[text], "other"), poolName(pool[0])),
			Next: "taint the node as the others, or make the pool's owner do it", Command: "kubectl taint node " + strings.Join(nodeWords(without), " ") + " " + text,
		}, without, func(n *gpuNode) []facts.Evidence {
			return []facts.Evidence{n.evidence("spec.taints", wording.AtMost(3, taintTexts(n)))}
		}))
	}
	return out
}

func taintTexts(n *gpuNode) (out []string) {
	for _, t := range n.Spec.Taints {
		out = append(out, podspec.TaintText(t))
	}
	return out
}

// nodeWords are the names of a few nodes, for a command.
func nodeWords(nodes []*gpuNode) (out []string) {
	for _, n := range nodes[:min(len(nodes), MaxListed)] {
		out = append(out, n.Name)
	}
	return out
}
