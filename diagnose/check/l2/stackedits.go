package l2

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

// This file has the changes that bring the GPU software of nodes back. Each one sets the nodes as they are once the
// software has done its work, and says what is assumed about that.

// stackAssumes says why the nodes are taken to have so many GPUs.
func stackAssumes(c *check.Case, nodes []*check.NodeFit) string {
	g := gpustack.NodeNamed(c.Facts, nodes[0].Name)
	out := fmt.Sprintf("%s then %s %s", place.NamesOf(nodes), place.Verb(nodes, "offers", "offer each"), wording.Number(g.Units, "GPU"))
	if g.Says == "" {
		return out + ", though nothing says how many there are"
	}
	return out + ", as told by " + g.Says
}

// bringBack are the edits after which a pod of the role runs on the nodes, one for each reason for which it is absent.
func bringBack(c *check.Case, r gpustack.Role, nodes []*check.NodeFit) []edit.Edit {
	var out []edit.Edit
	var done []string
	for _, n := range nodes {
		a := gpustack.Of(c.Facts).WhyAbsent(r, n.Node)
		id := a.ID()
		if slices.Contains(done, id) || len(out) == 3 {
			continue
		}
		done = append(done, id)
		same := slices.DeleteFunc(slices.Clone(nodes), func(o *check.NodeFit) bool { b := gpustack.Of(c.Facts).WhyAbsent(r, o.Node); return b.ID() != id })
		if e, ok := admit(c, r, a, same); ok {
			out = append(out, e)
		}
	}
	return out
}

// admit is the edit that ends the absence on the nodes.
func admit(c *check.Case, r gpustack.Role, a gpustack.Absence, nodes []*check.NodeFit) (edit.Edit, bool) {
	switch {
	case a.Set == nil && r == gpustack.RolePlugin && c.Sees("daemonsets.apps", ""):
		return installPlugin(c, nodes)
	case a.Set == nil || a.Other:
		return edit.Edit{}, false
	case a.Taint != nil:
		return tolerateInSet(c, r, a, nodes), true
	case a.Key != "" && !strings.HasPrefix(a.Key, gpustack.LabelDeploy) && !reaches(c, a.Set):
		return reselect(c, r, a.Set, nodes)
	case a.Key != "":
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n *check.NodeFit) bool {
			return strings.HasPrefix(a.Key, gpustack.LabelDeploy) && gpustack.Undetected(c.Facts, n.Node)
		})
		if len(nodes) == 0 {
			return edit.Edit{}, false
		}
		return labelNodes(c, r, a, nodes), true
	}
	return edit.Edit{}, false
}

// reaches says whether the DaemonSet selects any node with GPUs.
func reaches(c *check.Case, d *appsv1.DaemonSet) bool {
	for _, g := range gpustack.Of(c.Facts).Nodes {
		if a, _ := gpustack.KeptOff(d, g.Node); a.Key == "" && !a.Other {
			return true
		}
	}
	return false
}

// labelNodes gives the nodes the label by which the DaemonSet selects them.
func labelNodes(c *check.Case, r gpustack.Role, a gpustack.Absence, nodes []*check.NodeFit) edit.Edit {
	mend := func(n *corev1.Node) {
		place.Repaired(c, n)
		n.Labels = gpustack.WithLabel(n.Labels, a.Key, a.Value)
		if n.Labels[gpustack.LabelOperands] == "false" {
			delete(n.Labels, gpustack.LabelOperands)
		}
	}
	few := place.Fewest(c, nodes, mend)
	off := ""
	if slices.ContainsFunc(few, func(n *check.NodeFit) bool { return n.Labels[gpustack.LabelOperands] == "false" }) {
		off = " " + gpustack.LabelOperands + "-"
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: place.Mended(few, mend), Assumes: stackAssumes(c, few),
		Text:    fmt.Sprintf("label %s %s=%s, so that the %s runs there", place.NamesOf(few), a.Key, a.Value, r),
		Command: fmt.Sprintf("kubectl label node %s%s %s=%s --overwrite", place.NodeWords(few), off, a.Key, a.Value),
	}
}

// reselect has the DaemonSet select nodes by a label that they have.
func reselect(c *check.Case, r gpustack.Role, d *appsv1.DaemonSet, nodes []*check.NodeFit) (edit.Edit, bool) {
	for _, key := range []string{gpustack.LabelDeploy + gpustack.Operand[r], gpustack.LabelPresent, "feature.node.kubernetes.io/pci-10de.present"} {
		if slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return n.Labels[key] != "true" }) {
			continue
		}
		selector := map[string]string{key: "true"}
		after := d.DeepCopy()
		after.Spec.Template.Spec.NodeSelector = selector
		return edit.Edit{
			Side: edit.Cluster, Cost: 3, Set: append(place.Mended(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), after), Assumes: stackAssumes(c, nodes),
			Text:    fmt.Sprintf("have DaemonSet %s select nodes by %s=true instead of %s", d.Name, key, selectorWords(d.Spec.Template.Spec.NodeSelector)),
			Command: edit.PatchLine(d, "json", []edit.Op{{Op: "replace", Path: "/spec/template/spec/nodeSelector", Value: selector}}) + restartLine(d),
		}, true
	}
	return edit.Edit{}, false
}

func selectorWords(m map[string]string) string {
	var out []string
	for _, k := range gpustack.SortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

// restartLine makes the pods anew of a DaemonSet that does not do so by itself.
func restartLine(d *appsv1.DaemonSet) string {
	if d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || d.Spec.Selector == nil {
		return ""
	}
	return fmt.Sprintf("\nkubectl delete pods -n %s -l %s", d.Namespace, selectorWords(d.Spec.Selector.MatchLabels))
}

// tolerateInSet has the DaemonSet tolerate the nodes' taint. One that the GPU Operator made would be made as before
// again, so that its ClusterPolicy is what to change.
func tolerateInSet(c *check.Case, r gpustack.Role, a gpustack.Absence, nodes []*check.NodeFit) edit.Edit {
	t := corev1.Toleration{Key: a.Taint.Key, Operator: corev1.TolerationOpExists, Effect: a.Taint.Effect}
	after := a.Set.DeepCopy()
	after.Spec.Template.Spec.Tolerations = append(after.Spec.Template.Spec.Tolerations, t)
	e := edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: append(place.Mended(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), after), Assumes: stackAssumes(c, nodes),
		Text:    fmt.Sprintf("have DaemonSet %s, the %s, tolerate taint %s of %s", a.Set.Name, r, podspec.TaintText(*a.Taint), place.NamesOf(nodes)),
		Command: edit.PatchLine(a.Set, "json", []edit.Op{appendOp("/spec/template/spec/tolerations", len(a.Set.Spec.Template.Spec.Tolerations), t)}) + restartLine(a.Set),
	}
	for _, p := range gpustack.Policies(c.Facts) {
		if ref := a.Set.OwnerReferences; len(ref) > 0 && ref[0].Kind == "ClusterPolicy" && ref[0].UID == p.GetUID() {
			list := []any{t}
			for _, was := range dialect.Items(p.Object, "spec", "daemonsets", "tolerations") {
				list = append(list, was)
			}
			e.Text = fmt.Sprintf("have ClusterPolicy %s deploy DaemonSets that tolerate taint %s of %s", p.GetName(), podspec.TaintText(*a.Taint), place.NamesOf(nodes))
			e.Command = edit.PatchLine(p, "merge", map[string]any{"spec": map[string]any{"daemonsets": map[string]any{"tolerations": list}}})
		}
	}
	return e
}

// appendOp adds the value to a list that has so many items.
func appendOp(path string, items int, value any) edit.Op {
	if items == 0 {
		return edit.Op{Op: "add", Path: path, Value: []any{value}}
	}
	return edit.Op{Op: "add", Path: path + "/-", Value: value}
}

// installPlugin makes the device plugin's DaemonSet from that of feature discovery, which runs from the same image.
// Where the GPU Operator rules, it is the Operator's to make.
func installPlugin(c *check.Case, nodes []*check.NodeFit) (edit.Edit, bool) {
	e := edit.Edit{
		Side: edit.Cluster, Cost: 4, Set: place.Mended(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), Assumes: stackAssumes(c, nodes),
		Text: "deploy NVIDIA's device plugin again, which no DaemonSet runs",
	}
	for _, d := range gpustack.Of(c.Facts).Sets[gpustack.RoleDiscovery] {
		if i := slices.IndexFunc(d.Spec.Template.Spec.Containers, func(o corev1.Container) bool { return strings.Contains(o.Image, "k8s-device-plugin") }); i >= 0 && len(gpustack.Policies(c.Facts)) == 0 {
			made := pluginLike(d, d.Spec.Template.Spec.Containers[i].Image, nodes)
			e.Set = append(e.Set, made)
			e.Text = fmt.Sprintf("make DaemonSet %s for the device plugin, from the image that %s has", made.Name, d.Name)
			e.Command = edit.ApplyLine(made)
		}
	}
	return e, true
}

// pluginLike is a DaemonSet of the device plugin that runs where the nodes are, beside the given one.
func pluginLike(d *appsv1.DaemonSet, image string, nodes []*check.NodeFit) *appsv1.DaemonSet {
	labels := map[string]string{"app": "nvidia-device-plugin-daemonset"}
	of := &d.Spec.Template.Spec
	out := &appsv1.DaemonSet{}
	out.APIVersion, out.Kind = "apps/v1", "DaemonSet"
	out.Name, out.Namespace, out.Labels = labels["app"], d.Namespace, labels
	out.Spec.Selector = d.Spec.Selector.DeepCopy()
	out.Spec.Selector.MatchLabels, out.Spec.Selector.MatchExpressions = labels, nil
	out.Spec.Template.Labels = labels
	privileged := true
	out.Spec.Template.Spec = corev1.PodSpec{
		ServiceAccountName: of.ServiceAccountName, PriorityClassName: of.PriorityClassName, RuntimeClassName: of.RuntimeClassName,
		NodeSelector: of.NodeSelector, Tolerations: of.Tolerations,
		Containers: []corev1.Container{{
			Name: "nvidia-device-plugin", Image: image, Command: []string{"nvidia-device-plugin"},
			SecurityContext: &corev1.SecurityContext{Privileged: &privileged},
			VolumeMounts:    []corev1.VolumeMount{socketsMount},
		}},
		Volumes: []corev1.Volume{socketsVolume},
	}
	own := gpustack.LabelDeploy + gpustack.Operand[gpustack.RolePlugin]
	if !slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return n.Labels[own] != "true" }) {
		out.Spec.Template.Spec.NodeSelector = map[string]string{own: "true"}
	}
	return out
}

var (
	socketsMount  = corev1.VolumeMount{Name: "device-plugin", MountPath: gpustack.PluginSockets}
	socketsVolume = corev1.Volume{Name: "device-plugin", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: gpustack.PluginSockets}}}
)

// mountSockets gives the DaemonSet's pods the kubelet's folder for device plugins.
func mountSockets(c *check.Case, d *appsv1.DaemonSet, nodes []*check.NodeFit) (edit.Edit, bool) {
	spec := &d.Spec.Template.Spec
	at := slices.IndexFunc(spec.Containers, func(o corev1.Container) bool { return !gpustack.Runs(&o, "config-manager") })
	if at < 0 {
		return edit.Edit{}, false
	}
	after := d.DeepCopy()
	e := edit.Edit{
		Side: edit.Cluster, Cost: 3, Assumes: stackAssumes(c, nodes),
		Text:    fmt.Sprintf("mount the host's folder %s into DaemonSet %s", gpustack.PluginSockets, d.Name),
		Command: edit.PatchLine(d, "json", socketOps(spec, at, &after.Spec.Template.Spec)) + restartLine(d),
	}
	e.Set = append(place.Mended(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), after)
	return e, true
}

// socketOps are the operations that mount the folder into the container, which are done to after too.
func socketOps(spec *corev1.PodSpec, at int, after *corev1.PodSpec) []edit.Op {
	const volumes = "/spec/template/spec/volumes"
	mounts := fmt.Sprintf("/spec/template/spec/containers/%d/volumeMounts", at)
	have := spec.Containers[at].VolumeMounts
	if i := slices.IndexFunc(have, func(m corev1.VolumeMount) bool { return gpustack.HoldsDir(m.MountPath, gpustack.PluginSockets) }); i >= 0 {
		v := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == have[i].Name })
		volume := corev1.Volume{Name: have[i].Name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: have[i].MountPath}}}
		after.Volumes[v] = volume
		return []edit.Op{{Op: "replace", Path: fmt.Sprintf("%s/%d", volumes, v), Value: volume}}
	}
	mount := socketsMount
	var ops []edit.Op
	if v := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil && v.HostPath.Path == gpustack.PluginSockets }); v >= 0 {
		mount.Name = spec.Volumes[v].Name
	} else {
		volume := socketsVolume
		for slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }) {
			volume.Name += "-sockets"
		}
		mount.Name = volume.Name
		ops = append(ops, appendOp(volumes, len(spec.Volumes), volume))
		after.Volumes = append(after.Volumes, volume)
	}
	after.Containers[at].VolumeMounts = append(after.Containers[at].VolumeMounts, mount)
	return append(ops, appendOp(mounts, len(have), mount))
}

// restart has the pods of the role on the nodes made anew. It is offered where that may help: not where an image
// cannot be had, not where the DaemonSet's pods are well nowhere, and not where the kubelet has started the pod again in vain.
func restart(c *check.Case, r gpustack.Role, nodes []*check.NodeFit, stuck func(*gpustack.Node) *corev1.Pod) (edit.Edit, bool) {
	hopeful := slices.DeleteFunc(slices.Clone(nodes), func(n *check.NodeFit) bool {
		p := stuck(gpustack.NodeNamed(c.Facts, n.Name))
		return p == nil || !hopeful(c, p)
	})
	if len(hopeful) == 0 {
		return edit.Edit{}, false
	}
	few := place.Fewest(c, hopeful, func(n *corev1.Node) { place.Repaired(c, n) })
	var names, lines []string
	for _, n := range few {
		p := stuck(gpustack.NodeNamed(c.Facts, n.Name))
		names = append(names, p.Name)
		lines = append(lines, fmt.Sprintf("kubectl delete pod %s -n %s", p.Name, p.Namespace))
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: 3, Set: place.Mended(few, func(n *corev1.Node) { place.Repaired(c, n) }),
		Text:    fmt.Sprintf("restart the %s of %s: delete pod %s", r, place.NamesOf(few), strings.Join(names, ", ")),
		Command: strings.Join(lines, "\n"),
		Assumes: "the new pod does what the old one could not; " + stackAssumes(c, few),
	}, true
}

// hopeful says whether the pod may do better when it is made anew.
func hopeful(c *check.Case, p *corev1.Pod) bool {
	word := gpustack.Trouble(p)
	if strings.Contains(word, "Image") || word == "Pending" || crashes(p) >= inVain {
		return false
	}
	d, ok := c.Controller(p).(*appsv1.DaemonSet)
	return ok && (d.Status.NumberReady > 0 || d.Status.DesiredNumberScheduled <= 1)
}
