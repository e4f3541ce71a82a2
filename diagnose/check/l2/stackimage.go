package l2

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/kube/dialect"
)

// lostImage is an image of the GPU software that a node cannot have, and the DaemonSet that names it.
type lostImage struct {
	set   *appsv1.DaemonSet
	list  string // of the pod's spec: "containers", "initContainers"
	at    int
	image string
}

// lostImageOf is the one that the pod waits for; nil: it waits for something else, or no DaemonSet made it.
func lostImageOf(c *check.Case, p *corev1.Pod) *lostImage {
	if p == nil {
		return nil
	}
	d, ok := c.Controller(p).(*appsv1.DaemonSet)
	if !ok {
		return nil
	}
	spec := &d.Spec.Template.Spec
	for _, part := range []struct {
		list     string
		statuses []corev1.ContainerStatus
		of       []corev1.Container
	}{{"initContainers", p.Status.InitContainerStatuses, spec.InitContainers}, {"containers", p.Status.ContainerStatuses, spec.Containers}} {
		for _, s := range part.statuses {
			at := slices.IndexFunc(part.of, func(k corev1.Container) bool { return k.Name == s.Name })
			if w := s.State.Waiting; w != nil && strings.Contains(w.Reason, "Image") && at >= 0 {
				return &lostImage{d, part.list, at, part.of[at].Image}
			}
		}
	}
	return nil
}

// shown is where the image is written: in the DaemonSet, or in the ClusterPolicy from which the GPU Operator makes that again and again.
func (l *lostImage) shown(c *check.Case) facts.Evidence {
	if p := l.policy(c); p != nil {
		parts, _ := dialect.Value(p.Object, "spec").(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(parts)) {
			name := dialect.Text(parts, key, "image")
			if name != "" && strings.HasPrefix(path.Base(l.image)+":", path.Base(name)+":") {
				return facts.Evidence{Object: facts.RefTo(p).In(), Field: "spec." + key + ".image", Value: name + ", which makes " + l.image}
			}
		}
		return facts.Evidence{Object: facts.RefTo(p).In(), Field: "spec", Value: "makes " + l.image}
	}
	return facts.Evidence{Object: facts.RefTo(l.set).In(), Field: fmt.Sprintf("spec.template.spec.%s[%d].image", l.list, l.at), Value: l.image}
}

// policy is the ClusterPolicy that the DaemonSet is made from; nil: it is nobody's.
func (l *lostImage) policy(c *check.Case) *unstructured.Unstructured {
	for _, p := range gpustack.Policies(c.Facts) {
		if slices.ContainsFunc(l.set.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.GetUID() }) {
			return p
		}
	}
	return nil
}

// respell has the DaemonSet name the image that another one of the same software runs, where the two differ by a letter or two.
func respell(c *check.Case, nodes []*check.NodeFit, stuck func(*gpustack.Node) *corev1.Pod) []edit.Edit {
	for _, n := range nodes {
		l := lostImageOf(c, stuck(gpustack.NodeNamed(c.Facts, n.Name)))
		if l == nil || l.policy(c) != nil {
			continue
		}
		for _, d := range c.DaemonSets {
			if d.Namespace != l.set.Namespace || d.Status.NumberReady == 0 {
				continue
			}
			for _, k := range d.Spec.Template.Spec.Containers {
				if !place.LettersApart(k.Image, l.image) {
					continue
				}
				same := place.NodesWhere(nodes, func(n *corev1.Node) bool {
					o := lostImageOf(c, stuck(gpustack.NodeNamed(c.Facts, n.Name)))
					return o != nil && o.set == l.set
				})
				e := edit.Edit{
					Side: edit.Cluster, Cost: edit.CostWord, Assumes: stackAssumes(c, same),
					Text:    fmt.Sprintf("set the image of DaemonSet %s to %s, as DaemonSet %s has it, in place of %s", l.set.Name, k.Image, d.Name, l.image),
					Command: edit.PatchLine(l.set, "json", []edit.Op{{Op: "replace", Path: fmt.Sprintf("/spec/template/spec/%s/%d/image", l.list, l.at), Value: k.Image}}) + restartLine(l.set),
				}
				after := l.set.DeepCopy()
				if l.list == "containers" {
					after.Spec.Template.Spec.Containers[l.at].Image = k.Image
				} else {
					after.Spec.Template.Spec.InitContainers[l.at].Image = k.Image
				}
				e.Set = append(place.Mended(same, func(n *corev1.Node) { place.Repaired(c, n) }), after)
				return []edit.Edit{e}
			}
		}
	}
	return nil
}
