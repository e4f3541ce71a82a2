package submit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

// apply are the facts after the changes, and the changes in words.
func (ch *Changes) apply(f *facts.Facts) (*facts.Facts, []string, error) {
	var said []string
	out := keep(f, func(facts.Object) bool { return true })
	for _, a := range ch.AddNodes {
		if err := addNodes(out, a); err != nil {
			return nil, nil, err
		}
		said = append(said, fmt.Sprintf("add %s to pool %s", wording.Number(a.N, "node"), a.Of))
	}
	for _, name := range ch.Drain {
		moved, lost, err := drain(out, name)
		if err != nil {
			return nil, nil, err
		}
		text := fmt.Sprintf("drain node %s: %s to place again", name, wording.Pods(moved))
		if lost > 0 {
			text += fmt.Sprintf(", %s that no controller makes again", wording.Pods(lost))
		}
		said = append(said, text)
	}
	for _, q := range ch.Quota {
		text, err := setQuota(out, q)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, text)
	}
	return out, said, nil
}

// NodeNames are the nodes, sorted.
func (w World) NodeNames() []string {
	var out []string
	for _, n := range w.Facts.Nodes {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}

// PoolNames are the pools that nodes can be added to, sorted.
func (w World) PoolNames() []string { return slices.Sorted(maps.Keys(poolsIn(w.Facts))) }

// QueueNames are the queues and namespaces that have a quota, sorted.
func (w World) QueueNames() []string {
	out := slices.Clone(w.Facts.ForeignNames(v1alpha1.QueueKind+".berth.dev", ""))
	for _, q := range w.Facts.ResourceQuotas {
		out = append(out, q.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// poolsIn are the first nodes of pools, by every name that a pool has.
func poolsIn(f *facts.Facts) map[string]*corev1.Node {
	out := make(map[string]*corev1.Node)
	for _, n := range f.Nodes {
		for _, key := range gpustack.PoolLabels {
			pool := n.Labels[key]
			if had := out[pool]; pool != "" && (had == nil || n.Name < had.Name) {
				out[pool] = n
			}
		}
	}
	return out
}

// addNodes adds nodes like the first one of the pool, ready and empty.
func addNodes(f *facts.Facts, a Count) error {
	pools := poolsIn(f)
	like := pools[a.Of]
	if like == nil {
		return fmt.Errorf("no node is of pool %s%s", a.Of, among(a.Of, slices.Sorted(maps.Keys(pools))))
	}
	for i := range a.N {
		n := like.DeepCopy()
		n.Name = fmt.Sprintf("%s-new-%d", a.Of, i)
		n.UID = types.UID("added-" + n.Name)
		n.Spec.Unschedulable = false
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
		n.Labels[corev1.LabelHostname] = n.Name
		for j := range n.Status.Conditions {
			c := &n.Status.Conditions[j]
			c.Status = corev1.ConditionFalse
			if c.Type == corev1.NodeReady {
				c.Status = corev1.ConditionTrue
			}
		}
		f.Nodes = append(f.Nodes, n)
	}
	return nil
}

func among(name string, names []string) string {
	if near, ok := spelling.Closest(name, names); ok {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + strings.Join(names[:min(8, len(names))], ", ")
}

// drain cordons the node and takes its pods off, but those of DaemonSets: what a controller makes again waits (moved), and
// the rest is gone (lost).
func drain(f *facts.Facts, name string) (moved, lost int, err error) {
	i := slices.IndexFunc(f.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return 0, 0, fmt.Errorf("there is no node %s%s", name, among(name, World{Facts: f}.NodeNames()))
	}
	n := f.Nodes[i].DeepCopy()
	n.Spec.Unschedulable = true
	f.Nodes[i] = n
	var pods []*corev1.Pod
	for _, p := range f.Pods {
		if p.Spec.NodeName != name || facts.Ended(p) || place.ByDaemonSet(p) || p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			pods = append(pods, p)
			continue
		}
		if metav1.GetControllerOfNoCopy(p) == nil {
			lost++
			continue
		}
		moved++
		q := p.DeepCopy()
		q.Spec.NodeName, q.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
		delete(q.Annotations, v1alpha1.KeyGPUs)
		pods = append(pods, q)
	}
	f.Pods = pods
	return moved, lost, nil
}

// setQuota changes the quota of GPUs of a queue or, where there is no queue of the name, of a namespace.
func setQuota(f *facts.Facts, q Count) (string, error) {
	const gpu = "nvidia.com/gpu"
	queues := f.Foreign[v1alpha1.QueueKind+".berth.dev"]
	for i, u := range queues {
		if u.GetName() != q.Of {
			continue
		}
		text := fmt.Sprintf("set the quota of queue %s to %d %s", q.Of, q.N, gpu)
		list, _, _ := unstructured.NestedSlice(u.Object, "spec", "resources")
		at := slices.IndexFunc(list, func(r any) bool { m, ok := r.(map[string]any); return ok && m["name"] == gpu })
		next := u.DeepCopy()
		if at < 0 {
			list = append(list, map[string]any{"name": gpu, "quota": fmt.Sprint(q.N)})
			if err := unstructured.SetNestedSlice(next.Object, list, "spec", "resources"); err != nil {
				return "", err
			}
		} else {
			next = edit.WithValues(u, map[string]any{fmt.Sprintf("/spec/resources/%d/quota", at): fmt.Sprint(q.N)})
		}
		queues[i] = next
		return text, nil
	}
	for i, r := range f.ResourceQuotas {
		if r.Namespace != q.Of {
			continue
		}
		c := r.DeepCopy()
		amount := *resource.NewQuantity(q.N, resource.DecimalSI)
		for _, l := range []*corev1.ResourceList{&c.Spec.Hard, &c.Status.Hard} {
			if *l == nil {
				*l = corev1.ResourceList{}
			}
			(*l)["requests."+gpu] = amount
		}
		f.ResourceQuotas[i] = c
		return fmt.Sprintf("set the quota of namespace %s to %d requests.%s", q.Of, q.N, gpu), nil
	}
	return "", fmt.Errorf("there is no queue %s, and no namespace of the name with a quota%s", q.Of, among(q.Of, f.ForeignNames(v1alpha1.QueueKind+".berth.dev", "")))
}
