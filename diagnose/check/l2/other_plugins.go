package l2

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// Network cards, other vendors' accelerators and virtual functions are counted by device plugins too. Which plugin counts which resource is
// in its settings; what its DaemonSet is called tells well enough.

// otherPluginMissing are findings about resources beside NVIDIA's GPUs that no node offers although a device plugin for them is deployed.
func otherPluginMissing(c *check.Case) (out []check.Finding) {
	f := place.Stuck(c)
	if f == nil || !check.AboutPlaces(f) {
		return nil
	}
	for _, r := range podspec.Names(podspec.TotalRequests(c.Pod)) {
		name := string(r)
		d, words, evidence := brokenPlugin(c, name)
		if d == nil {
			continue
		}
		edits := tolerateInPlugin(c, f, d, name)
		out = append(out, check.Finding{
			Fit: true, Probe: grantProbe(c, f), Edits: edits,
			Message:  fmt.Sprintf("the pod asks for %s %s, and %s: DaemonSet %s, which has the device plugin, %s", why.Quantity(name, podspec.Requested(c.Pod, name)), name, offersNone(len(c.Nodes)), d.Name, words),
			Evidence: append(gapShown(c, name), evidence...),
			Advice:   fmt.Sprintf("Have DaemonSet %s in namespace %s repaired: its pods tell the kubelets how much of %s there is.", d.Name, d.Namespace, name),
		})
	}
	return out
}

func offersNone(nodes int) string {
	if nodes == 1 {
		return "the only node offers none"
	}
	return fmt.Sprintf("none of the %d nodes offers any", nodes)
}

// brokenPlugin is the DaemonSet that would have nodes offer the resource, and what is wrong with it; nil where nodes offer it, or no such
// DaemonSet is known or unwell.
func brokenPlugin(c *check.Case, name string) (*appsv1.DaemonSet, string, []facts.Evidence) {
	if !podspec.Extended(corev1.ResourceName(name)) || name == string(gpustack.WholeGPU) || strings.HasPrefix(name, "nvidia.com/mig-") || place.StandsFor(c.Facts, corev1.ResourceName(name)) != nil {
		return nil, "", nil
	}
	for _, n := range c.Nodes {
		if has := n.Status.Allocatable[corev1.ResourceName(name)]; !has.IsZero() {
			return nil, "", nil
		}
	}
	for _, d := range c.DaemonSets {
		if !gpustack.MountsSockets(&d.Spec.Template.Spec) || !namesResource(d, name) {
			continue
		}
		at := facts.RefTo(d).In()
		if d.Status.DesiredNumberScheduled == 0 {
			words, evidence := "runs on no node", []facts.Evidence{{Object: at, Field: "status.desiredNumberScheduled", Value: "0"}}
			if n, a := nearestFor(c, d); a.Taint != nil {
				words += fmt.Sprintf(": it does not tolerate taint %s of node %s", podspec.TaintText(*a.Taint), n.Name)
				evidence = append(evidence, facts.Evidence{Object: at, Field: "spec.template.spec.tolerations", Value: wording.AtMost(4, tolerationKeys(d))})
				evidence = append(evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("spec.taints[key=%q]", a.Taint.Key), Value: podspec.TaintText(*a.Taint)})
			} else if s := d.Spec.Template.Spec.NodeSelector; len(s) > 0 {
				words += ": it runs where " + selectorWords(s)
			}
			return d, words, evidence
		}
		for _, p := range c.Pods {
			if up := c.Controller(p); up == nil || up.GetUID() != d.UID || p.DeletionTimestamp != nil || stackStarting(c, p, pluginTakes) {
				continue
			}
			if word := gpustack.Trouble(p); !ready(p) {
				return d, fmt.Sprintf("is not ready: its pod %s on node %s is %s%s", p.Name, p.Spec.NodeName, word, lastWords(c, p)), []facts.Evidence{
					{Object: at, Field: "status.numberReady", Value: fmt.Sprintf("%d of %d", d.Status.NumberReady, d.Status.DesiredNumberScheduled)},
					{Object: facts.RefTo(p).In(), Field: "status", Value: word},
				}
			}
		}
		if d.Status.NumberReady == 0 && !c.Sees("pods", d.Namespace) {
			return d, fmt.Sprintf("has none of %s ready", wording.Number(d.Status.DesiredNumberScheduled, "pod")), []facts.Evidence{{Object: at, Field: "status.numberReady", Value: "0"}}
		}
	}
	return nil, "", nil
}

// nearestFor is the node that the DaemonSet comes closest to run on, among those that the pod could have but for the resource, and what keeps it off.
func nearestFor(c *check.Case, d *appsv1.DaemonSet) (best *corev1.Node, why gpustack.Absence) {
	rating := -1
	for _, n := range c.Nodes {
		if a, points := gpustack.KeptOff(d, n); points > rating && facts.NodeReady(n) && podspec.Suits(c.Pod, n) {
			best, why, rating = n, a, points
		}
	}
	return best, why
}

func tolerationKeys(d *appsv1.DaemonSet) (out []string) {
	for _, t := range d.Spec.Template.Spec.Tolerations {
		out = append(out, t.Key)
	}
	return out
}

// tolerateInPlugin has the DaemonSet of a device plugin tolerate the taint that alone keeps it off nodes which the pod could have.
func tolerateInPlugin(c *check.Case, f *check.Fit, d *appsv1.DaemonSet, name string) []edit.Edit {
	_, why := nearestFor(c, d)
	if d.Status.DesiredNumberScheduled > 0 || why.Taint == nil {
		return nil
	}
	t := corev1.Toleration{Key: why.Taint.Key, Operator: corev1.TolerationOpExists, Effect: why.Taint.Effect}
	after := d.DeepCopy()
	after.Spec.Template.Spec.Tolerations = append(after.Spec.Template.Spec.Tolerations, t)
	after.Status.DesiredNumberScheduled = 1
	e := edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: []facts.Object{after}, Assumes: fmt.Sprintf("the nodes have %s, and the plugin then counts it", name),
		Text:    fmt.Sprintf("have DaemonSet %s, which has the device plugin of %s, tolerate taint %s", d.Name, name, podspec.TaintText(*why.Taint)),
		Command: edit.PatchLine(d, "json", []edit.Op{appendOp("/spec/template/spec/tolerations", len(d.Spec.Template.Spec.Tolerations), t)}) + restartLine(d),
	}
	for i := range f.Nodes {
		n := f.Nodes[i].Node
		if a, _ := gpustack.KeptOff(after, n); a.Taint == nil && a.Key == "" && !a.Other && podspec.Suits(c.Pod, n) {
			e.Set = append(e.Set, gpustack.ChangedNode(n, func(n *corev1.Node) { grantAll(c, n) }))
		}
	}
	return []edit.Edit{e}
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool { return k.Type == corev1.PodReady && k.Status == corev1.ConditionTrue })
}

// anyWord are words that many plugins, and many resources, have in their names.
var anyWord = []string{"com", "org", "net", "dev", "device", "devices", "plugin", "plugins", "shared", "resource", "resources", "k8s", "kubernetes", "kube", "daemonset", "node", "system", "operator", "image", "registry", "latest"}

// namesResource says whether the DaemonSet is a plugin of the resource: it has the name in its command, or a word of it in its own name or its
// images.
func namesResource(d *appsv1.DaemonSet, name string) bool {
	own := wordsIn(d.Name)
	for i := range d.Spec.Template.Spec.Containers {
		k := &d.Spec.Template.Spec.Containers[i]
		if slices.ContainsFunc(slices.Concat(k.Command, k.Args), func(arg string) bool { return strings.Contains(arg, name) }) {
			return true
		}
		image := k.Image[strings.LastIndexByte(k.Image, '/')+1:]
		image, _, _ = strings.Cut(image, ":")
		own = append(append(own, wordsIn(k.Name)...), wordsIn(image)...)
	}
	return slices.ContainsFunc(wordsIn(name), func(w string) bool { return slices.Contains(own, w) })
}

func wordsIn(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < 3 || slices.Contains(anyWord, w) })
}

// grantProbe has every node advertise what the pod asks for: it stands for hardware and software that no advice can name.
func grantProbe(c *check.Case, f *check.Fit) *edit.Edit {
	e := &edit.Edit{Side: edit.Cluster, Text: "have nodes advertise what is asked for"}
	for i := range f.Nodes {
		e.Set = append(e.Set, gpustack.ChangedNode(gpustack.Repaired(c.Facts, f.Nodes[i].Node), func(n *corev1.Node) { place.Wish(c, n); grantAll(c, n) }))
	}
	return e
}

// grantAll has the node offer the devices that the pod asks for, of any vendor.
func grantAll(c *check.Case, n *corev1.Node) {
	for name, q := range podspec.Requests(c.Pod) {
		if have := n.Status.Allocatable[name]; (podspec.Extended(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)) && have.Cmp(q) < 0 {
			n.Status.Allocatable, n.Status.Capacity = gpustack.WithQuantity(n.Status.Allocatable, name, q), gpustack.WithQuantity(n.Status.Capacity, name, q)
		}
	}
}

// gapShown is evidence from the first few nodes.
func gapShown(c *check.Case, device string) []facts.Evidence {
	nodes := slices.Clone(c.Nodes)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	var out []facts.Evidence
	for _, n := range nodes[:min(len(nodes), 3)] {
		e := place.QuantityShown(n.Status.Capacity, "status.capacity", corev1.ResourceName(device))
		e.Object = facts.RefTo(n).In()
		out = append(out, e)
	}
	return out
}
