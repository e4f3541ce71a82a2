package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Report is a page in Markdown for somebody who was not there: the fleet, what waits and why, what it all runs on, and
// what of this was proven. found is what was diagnosed.
func Report(b *Bundle, found []diagnose.Diagnosis) []byte {
	p := page{f: b.Facts, m: b.Manifest, found: found}
	p.head()
	p.fleet()
	p.pending()
	p.environment()
	p.proof()
	return p.Bytes()
}

type page struct {
	bytes.Buffer
	f     *facts.Facts
	m     *Manifest
	found []diagnose.Diagnosis
}

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// row writes a row of a table. What would end a cell early is made harmless.
func (p *page) row(cells ...any) {
	for _, c := range cells {
		text := strings.Join(strings.Fields(fmt.Sprint(c)), " ")
		p.WriteString("| " + strings.ReplaceAll(cmp.Or(text, "-"), "|", `\|`) + " ")
	}
	p.WriteString("|\n")
}

func (p *page) table(header ...any) {
	p.WriteByte('\n')
	p.row(header...)
	p.WriteString(strings.Repeat("| --- ", len(header)) + "|\n")
}

func (p *page) head() {
	p.say("# Evidence of %s", p.m.Captured.Format("2006-01-02 15:04:05 UTC"))
	p.say("")
	p.say("Taken by `berth evidence` (Berth %s) from cluster %s, Kubernetes %s.", cmp.Or(p.m.Berth, "of unknown version"), cmp.Or(p.m.Cluster, "(no name)"), cmp.Or(p.f.Kubernetes, "of unknown version"))
	if p.m.Redacted {
		p.say("Names are redacted: the same name has the same replacement everywhere in this bundle, and nowhere else.")
	}
	p.say("Secrets were not read. Of environments, command lines, annotations and texts there is what diagnosis needs; the rest is masked.")
}

// model is what nodes of one GPU model have, in GPUs.
type model struct {
	nodes                                                    int
	total, advertised, healthy, schedulable, allocated, idle int64
}

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

// fleet counts whole GPUs by model.
func (p *page) fleet() {
	p.say("\n## Fleet")
	if !p.f.Sees("nodes", "") {
		p.say("\nNodes could not be read.")
		return
	}
	models, without := p.models()
	p.table("GPU model", "Nodes", "GPUs", "Advertised", "Healthy", "Schedulable", "Allocated", "Idle")
	for _, name := range slices.Sorted(maps.Keys(models)) {
		m := models[name]
		p.row(name, m.nodes, m.total, m.advertised, m.healthy, m.schedulable, p.allocated(m.allocated), p.allocated(m.idle))
	}
	p.row("(no GPU)", without, 0, 0, 0, 0, 0, 0)
	p.say("\nGPUs: as labels or capacity say. Advertised: in the nodes' capacity. Healthy: in what they have for pods (allocatable).")
	p.say("Schedulable: of these, on nodes that are Ready and not cordoned. Allocated: asked for by pods that have a node and have not ended.")
	p.say("Idle: schedulable and not allocated. Counted is the resource %s; GPUs in parts (MIG) are not.", gpuResource)
	if n := p.devices(); n > 0 {
		p.say("Beside these, ResourceSlices offer %d GPU devices for claims.", n)
	}
}

// allocated is a number that takes all pods to know.
func (p *page) allocated(n int64) string {
	if !p.f.Sees("pods", "") {
		return "not seen"
	}
	return fmt.Sprint(n)
}

// models counts by the product that nodes are labelled with; without is of nodes without GPUs.
func (p *page) models() (models map[string]*model, without int) {
	used := make(map[string]int64)
	for _, pod := range p.f.Pods {
		if pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			used[pod.Spec.NodeName] += gpusOf(pod)
		}
	}
	models = make(map[string]*model)
	for _, n := range p.f.Nodes {
		advertised, healthy := n.Status.Capacity[gpuResource], n.Status.Allocatable[gpuResource]
		total := advertised.Value()
		var labelled int64
		if _, err := fmt.Sscan(n.Labels["nvidia.com/gpu.count"], &labelled); err == nil {
			total = max(total, labelled)
		}
		product := n.Labels["nvidia.com/gpu.product"]
		if total == 0 && product == "" {
			without++
			continue
		}
		m := models[cmp.Or(product, "(no label says)")]
		if m == nil {
			m = &model{}
			models[cmp.Or(product, "(no label says)")] = m
		}
		m.nodes++
		m.total += total
		m.advertised += advertised.Value()
		m.healthy += healthy.Value()
		m.allocated += used[n.Name]
		if !n.Spec.Unschedulable && isReady(n) {
			m.schedulable += healthy.Value()
			m.idle += max(0, healthy.Value()-used[n.Name])
		}
	}
	return models, without
}

// gpusOf is how many GPUs the pod holds: containers side by side, or the one before them that asks for most.
func gpusOf(p *corev1.Pod) int64 {
	ask := func(c *corev1.Container) int64 {
		q := c.Resources.Limits[gpuResource]
		return q.Value()
	}
	var sum, most int64
	for i := range p.Spec.Containers {
		sum += ask(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sum += ask(c)
			continue
		}
		most = max(most, ask(c))
	}
	return max(sum, most)
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// devices counts those that drivers of GPUs publish for claims.
func (p *page) devices() (n int) {
	for _, s := range p.f.ResourceSlices {
		if strings.HasPrefix(s.Spec.Driver, "gpu.") || strings.HasPrefix(s.Spec.Driver, "hami-core-gpu.") {
			n += len(s.Spec.Devices)
		}
	}
	return n
}

// layers in the order of the ladder.
var layers = []struct {
	check.Layer
	name string
}{
	{check.L1, "L1 capacity"}, {check.L2, "L2 provisioning"}, {check.L3, "L3 scheduling"}, {check.L4, "L4 workload"}, {check.None, "Nobody has to act, or the cause is not known"},
}

func (p *page) pending() {
	p.say("\n## What waits, by layer")
	if len(p.found) == 0 {
		p.say("\nNothing that could be seen waits.")
		return
	}
	for _, l := range layers {
		first := true
		for i := range p.found {
			d := &p.found[i]
			if d.Layer != l.Layer {
				continue
			}
			if first {
				p.say("\n### %s", l.name)
				p.table("Workload", "State", "Layer", "Cause", "Owner", "Age", "Why", "Fix")
				first = false
			}
			p.row(d.Target.In(), d.State, d.Layer, d.Cause, d.Owner, p.age(d.Created), d.Summary, p.fix(d))
		}
	}
}

func (p *page) age(created time.Time) string {
	if created.IsZero() {
		return ""
	}
	return p.f.At.Sub(created).Round(time.Second).String()
}

func (p *page) fix(d *diagnose.Diagnosis) string {
	switch {
	case len(d.Fixes) > 0:
		return d.Fixes[0].Edit + " (tried: " + d.Fixes[0].Outcome + ")"
	case d.Layer == check.None:
		return "none needed"
	}
	return "no verified fix"
}

func (p *page) environment() {
	p.say("\n## Environment")
	p.say("")
	p.say("- Kubernetes: API server %s; kubelets %s", cmp.Or(p.f.Kubernetes, "of unknown version"), counted(p.f.Nodes, func(n *corev1.Node) string { return n.Status.NodeInfo.KubeletVersion }))
	p.say("- GPU drivers, as nodes are labelled: %s", counted(p.f.Nodes, func(n *corev1.Node) string { return n.Labels["nvidia.com/cuda.driver-version.full"] }))
	p.say("- GPU software: %s", p.stack())
	p.say("- Autoscalers: %s", p.some("cluster-autoscaler status", len(p.f.AutoscalerStatus()), "Karpenter NodePools", p.count("NodePool.karpenter.sh"), "Karpenter NodeClaims", p.count("NodeClaim.karpenter.sh"), "ProvisioningRequests", p.count("ProvisioningRequest.autoscaling.x-k8s.io")))
	p.say("- Queues: %s", p.some("Berth queues", p.count("BerthQueue.berth.dev"), "Kueue ClusterQueues", p.count("ClusterQueue.kueue.x-k8s.io"), "Kueue Workloads", p.count("Workload.kueue.x-k8s.io"), "KAI queues", p.count("Queue.scheduling.run.ai"), "Volcano queues", p.count("Queue.scheduling.volcano.sh"), "PodGroups", len(p.f.PodGroups)))
	p.say("- Schedulers that pods name: %s", counted(p.f.Pods, func(p *corev1.Pod) string { return p.Spec.SchedulerName }))
}

func (p *page) count(kind string) int { return len(p.f.Foreign[kind]) }

// some lists what there is any of: names and counts in turn.
func (p *page) some(pairs ...any) string {
	var words []string
	for i := 0; i < len(pairs); i += 2 {
		if n := pairs[i+1].(int); n > 0 {
			words = append(words, fmt.Sprintf("%v (%d)", pairs[i], n))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "none seen")
}

// stack lists the DaemonSets of the GPU software.
func (p *page) stack() string {
	var words []string
	for _, d := range p.f.DaemonSets {
		if strings.Contains(d.Name, "nvidia") || strings.Contains(d.Name, "gpu") || strings.Contains(d.Name, "dcgm") {
			words = append(words, fmt.Sprintf("%s/%s %d of %d ready", d.Namespace, d.Name, d.Status.NumberReady, d.Status.DesiredNumberScheduled))
		}
	}
	slices.Sort(words)
	return cmp.Or(strings.Join(words, ", "), "no DaemonSets of it seen")
}

// counted says how many objects have which value: "v1.37.1 (8)".
func counted[T any](all []T, value func(T) string) string {
	n := make(map[string]int)
	for _, o := range all {
		if v := value(o); v != "" {
			n[v]++
		}
	}
	var words []string
	for _, v := range slices.Sorted(maps.Keys(n)) {
		words = append(words, fmt.Sprintf("%s (%d)", v, n[v]))
	}
	return cmp.Or(strings.Join(words, ", "), "none seen")
}

// proof says what was tried and what was not.
func (p *page) proof() {
	p.say("\n## What was proven, and what was not")
	p.say("")
	var fixed, open int
	for i := range p.found {
		switch d := &p.found[i]; {
		case len(d.Fixes) > 0:
			fixed++
		case d.Layer != check.None:
			open++
		}
	}
	p.say("- Of %d that somebody has to act on, %d have a fix that was tried on a copy of these facts: after it the checks find nothing in the way, and the engine finds a place. For %d there is no verified fix.", fixed+open, fixed, open)
	for i := range p.found {
		d := &p.found[i]
		for _, f := range d.Fixes {
			p.say("  - %s: %s; %s%s", d.Target.In(), f.Edit, f.Outcome, assuming(f.Assumes))
		}
	}
	p.say("- Nothing was changed in the cluster.")
	if len(p.f.Unseen) == 0 {
		p.say("- Everything that was looked for could be read.")
		return
	}
	p.say("- Not seen, and so not known:")
	for _, u := range p.f.Unseen {
		p.say("  - %s", u)
	}
}

func assuming(s string) string {
	if s == "" {
		return ""
	}
	return ", assuming that " + s
}
