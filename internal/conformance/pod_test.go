package conformance

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// anyPod is a pod that waits, with nothing in it that Berth does not decide.
func anyPod(t *rapid.T, name string, s storage) *corev1.Pod {
	p := blank(name)
	p.Spec.Priority = new(pick[int32](t, "priority", 0, 5, 10))
	draw{t, amounts}.containers(p)
	anyPorts(t, p)
	if chance(t, 12, "selector") {
		key := pick(t, "key", "disk", "cores", corev1.LabelTopologyZone)
		p.Spec.NodeSelector = map[string]string{key: pick(t, "value", nodeLabels[key]...)}
	}
	if chance(t, 10, "affinity") {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: anyNodeSelector(t)}}
	}
	for range pick(t, "tolerations", 0, 0, 1, 2) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, anyToleration(t))
	}
	if chance(t, 32, "node name") {
		p.Spec.NodeName = pick(t, "node", "n0", "n1", "gone")
	}
	for range pick(t, "claims", 0, 0, 0, 0, 0, 0, 0, 1, 2) {
		p.Spec.Volumes = append(p.Spec.Volumes, anyVolume(t, len(p.Spec.Volumes), s))
	}
	anyNeed(t, p)
	anyWish(t, p)
	return p
}

// anyNeed makes some pods need a feature that their node must declare.
func anyNeed(t *rapid.T, p *corev1.Pod) {
	if chance(t, 24, "restarts all containers") {
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	}
	if chance(t, 24, "users of its own on the host's network") {
		p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false)
	}
}

// anyWish adds what a pod may wish for without being refused a node for it.
func anyWish(t *rapid.T, p *corev1.Pod) {
	if chance(t, 8, "spread anyway") {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "disk", WhenUnsatisfiable: corev1.ScheduleAnyway}}
	}
	if chance(t, 8, "preferred pod affinity") {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{}
		}
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname},
		}}}
	}
}

func anyNodeSelector(t *rapid.T) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for range pick(t, "terms", 1, 2, 1, 2, 1, 0) {
		var term corev1.NodeSelectorTerm
		for range pick(t, "expressions", 1, 2, 1, 0) {
			term.MatchExpressions = append(term.MatchExpressions, anyRequirement(t))
		}
		if chance(t, 4, "fields") {
			term.MatchFields = []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: pick(t, "operator", corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
				Values: []string{pick(t, "node", "n0", "n1", "gone")},
			}}
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

// anyRequirement is of any operator; values that are no numbers, and lists of the wrong length, are among them.
func anyRequirement(t *rapid.T) corev1.NodeSelectorRequirement {
	op := pick(t, "operator", corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists,
		corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
	r := corev1.NodeSelectorRequirement{Key: pick(t, "key", "disk", "cores", corev1.LabelHostname), Operator: op}
	count := map[corev1.NodeSelectorOperator]int{corev1.NodeSelectorOpIn: 2, corev1.NodeSelectorOpNotIn: 2, corev1.NodeSelectorOpGt: 1, corev1.NodeSelectorOpLt: 1}[op]
	if op == corev1.NodeSelectorOpGt || op == corev1.NodeSelectorOpLt {
		r.Key = "cores"
	}
	if chance(t, 16, "malformed") {
		count = 3 - count
	}
	values := slices.Concat(nodeLabels["disk"], []string{"n0"})
	if r.Key == "cores" {
		values = slices.Concat([]string{"9"}, nodeLabels["cores"])
	}
	for range count {
		r.Values = append(r.Values, pick(t, "value", values...))
	}
	return r
}

// anyToleration is one that the API server takes: no key and no value only with Exists.
func anyToleration(t *rapid.T) corev1.Toleration {
	out := corev1.Toleration{
		Key:      pick(t, "taint", "team", "team", "old", corev1.TaintNodeUnschedulable, ""),
		Operator: pick(t, "operator", corev1.TolerationOpExists, corev1.TolerationOpEqual, ""),
		Effect:   pick(t, "effect", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
	}
	switch {
	case out.Key == "":
		out.Operator = corev1.TolerationOpExists
	case out.Operator != corev1.TolerationOpExists:
		out.Value = pick(t, "value", "a", "b", "")
	}
	return out
}

// anyPorts gives some of the pod's containers host ports.
func anyPorts(t *rapid.T, p *corev1.Pod) {
	if !chance(t, 4, "ports") {
		return
	}
	for _, of := range []*[]corev1.Container{&p.Spec.Containers, &p.Spec.InitContainers} {
		for i := range *of {
			(*of)[i].Ports = []corev1.ContainerPort{{
				ContainerPort: 1, HostPort: pick[int32](t, "port", 80, 81, 0),
				HostIP:   pick(t, "ip", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::1"),
				Protocol: pick(t, "protocol", corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
			}}
		}
	}
}

// draw draws resource lists from the amounts of each name.
type draw struct {
	t    *rapid.T
	from map[string][]string
}

// amounts that waiting pods ask for, and modest ones, of pods that have a node; parts of a unit are among them.
var (
	amounts = map[string][]string{
		"cpu": {"1", "500m", "500m", "4", "0", "100u"}, "memory": {"1Gi", "512Mi", "512M", "4Gi", "0", "0.5"}, "ephemeral-storage": {"1Gi", "0", "20Gi"},
		"hugepages-2Mi": {"2Mi", "4Mi"}, "nvidia.com/gpu": {"1", "1", "2", "8", "0"}, "example.com/fpga": {"1", "0"}, "example.com/absent": {"0", "0", "0", "1"},
	}
	modest = map[string][]string{
		"cpu": {"100m", "100m", "1", "0"}, "memory": {"128Mi", "128Mi", "1Gi"}, "ephemeral-storage": {"1Gi"},
		"hugepages-2Mi": {"2Mi"}, "nvidia.com/gpu": {"1", "0", "4"}, "example.com/fpga": {"1"},
	}
)

func (d draw) list() corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range sortedKeys(d.from) {
		odds := 24
		if name == "cpu" || name == "memory" {
			odds = 2
		}
		if chance(d.t, odds, "asks for "+name) {
			out[corev1.ResourceName(name)] = resource.MustParse(pick(d.t, name, d.from[name]...))
		}
	}
	return out
}

// containers fills in everything that upstream's formula for requests looks at.
func (d draw) containers(p *corev1.Pod) {
	for i := range pick(d.t, "containers", 1, 1, 2) {
		p.Spec.Containers = append(p.Spec.Containers, d.container(fmt.Sprintf("main-%d", i)))
	}
	for i := range pick(d.t, "init containers", 0, 0, 0, 1, 2) {
		c := d.container(fmt.Sprintf("init-%d", i))
		if chance(d.t, 2, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if chance(d.t, 6, "overhead") {
		p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("64Mi")}
	}
	if chance(d.t, 6, "of the pod") {
		list := d.list()
		for name := range list {
			if name != "cpu" && name != "memory" && name != "hugepages-2Mi" {
				delete(list, name)
			}
		}
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list}
	}
}

func (d draw) container(name string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: d.list()}}
}
