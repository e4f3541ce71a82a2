package supply

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// KarpenterPools are the pools that make nodes for pods that wait, by weight and name. Static ones do not.
func KarpenterPools(f *facts.Facts) []*karpenter.Pool { return autoscaling(f).pools }

func readKarpenter(f *facts.Facts) []*karpenter.Pool {
	return karpenter.ReadPools(f.Foreign["NodePool.karpenter.sh"], f.Foreign["NodeClaim.karpenter.sh"], f.Nodes, func(kind, name string) *unstructured.Unstructured {
		return f.ForeignNamed(kind, "", name)
	})
}

// KarpenterObstacle is one thing that keeps Karpenter from making a node of a pool for a pod.
type KarpenterObstacle struct {
	Text  string
	Need  *place.Need   // of the pod, that the pool cannot meet
	Taint *corev1.Taint // of the pool, that the pod does not tolerate
	Size  bool          // the pool's nodes are too small, or lack the device
}

// KarpenterObstacles are what keeps the pool from having a node for the pod; none: it could make one.
func KarpenterObstacles(c *check.Case, p *karpenter.Pool) []KarpenterObstacle {
	var out []KarpenterObstacle
	for _, key := range slices.Sorted(maps.Keys(c.Pod.Spec.NodeSelector)) {
		v := c.Pod.Spec.NodeSelector[key]
		out = append(out, misses(p, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{v}}, -1, -1)...)
	}
	out = append(out, missesTerms(p, place.Terms(&c.Pod.Spec))...)
	fresh := &corev1.Node{Spec: corev1.NodeSpec{Taints: p.Taints}}
	for _, t := range podspec.Untolerated(c.Pod, fresh) {
		out = append(out, KarpenterObstacle{Taint: &t, Text: "the pod does not tolerate its taint " + podspec.TaintText(t)})
	}
	if text := karpenterTooSmall(c, p); text != "" {
		out = append(out, KarpenterObstacle{Size: true, Text: text})
	}
	// A pool that names no machines permits every label of one, and only Karpenter knows which machines there are.
	if text := KarpenterSaid(c).Unmet(p.GetName()); text != "" && len(out) == 0 {
		out = append(out, KarpenterObstacle{Text: "Karpenter says of it: " + text})
	}
	return out
}

func misses(p *karpenter.Pool, e corev1.NodeSelectorRequirement, term, expr int) []KarpenterObstacle {
	if p.Meets(e) {
		return nil
	}
	n := place.Need{Key: e.Key, Values: e.Values, Term: term, Expr: expr}
	o := KarpenterObstacle{Text: fmt.Sprintf("its nodes do not have the label %s", e.Key)}
	if have := p.Values(e.Key); len(have) > 0 {
		o.Text = fmt.Sprintf("its nodes have %s=%s", e.Key, strings.Join(have, ", "))
	} else if p.Knows(e.Key) {
		o.Text = "its nodes do not have " + n.Text()
	}
	if e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpExists {
		o.Need = &n
	}
	return []KarpenterObstacle{o}
}

// missesTerms are the obstacles of the affinity term that has fewest: one has to match.
func missesTerms(p *karpenter.Pool, all []corev1.NodeSelectorTerm) (fewest []KarpenterObstacle) {
	for i, t := range all {
		var out []KarpenterObstacle
		for j, e := range t.MatchExpressions {
			out = append(out, misses(p, e, i, j)...)
		}
		if len(t.MatchFields) > 0 {
			out = append(out, KarpenterObstacle{Text: "the pod asks for a node by name"})
		}
		if i == 0 || len(out) < len(fewest) {
			fewest = out
		}
	}
	return fewest
}

// autoscalerDevices is what a machine of a cloud has at most, as a rule.
const autoscalerDevices = 8

// karpenterTooSmall says in what way the pool's nodes are too small for the pod; "" where they are not, or nobody can
// tell: which machines a cloud has is not in the cluster.
func karpenterTooSmall(c *check.Case, p *karpenter.Pool) string {
	device, ask := podspec.Device(c.Pod)
	if device == "" || !strings.HasPrefix(device, "nvidia.com/") {
		return ""
	}
	most := int64(0)
	for _, shape := range p.Shapes() {
		most = max(most, podspec.Amount(device, shape[corev1.ResourceName(device)]))
	}
	if said := KarpenterSaid(c); said.About(p.GetName(), "has enough resources", "had enough resources") {
		return fmt.Sprintf("Karpenter knows of no machine for it with %d %s and the rest that the pod asks for", ask, device)
	}
	if most == 0 && p.WithoutGPUs() {
		return "its nodes have no " + device
	}
	for _, r := range p.Rules {
		if r.Key == "karpenter.k8s.aws/instance-gpu-count" && r.Operator == "In" {
			most = max(most, karpenter.LargestCount(r.Values))
			if ask > most {
				return fmt.Sprintf("its nodes have %d %s", most, device)
			}
		}
	}
	if ask > max(most, autoscalerDevices) {
		return fmt.Sprintf("its nodes have no more than %d %s", max(most, autoscalerDevices), device)
	}
	return ""
}

// KarpenterNode is a node as Karpenter would make one of the pool for the pod.
func KarpenterNode(c *check.Case, p *karpenter.Pool) *corev1.Node {
	for _, n := range p.Nodes[:min(len(p.Nodes), autoscalerSample)] {
		like := gpustack.Repaired(c.Facts, n)
		like.Spec.Taints = slices.Clone(p.Taints)
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(c.Pod).Match(like); ok && err == nil && podspec.Fits(podspec.Requests(c.Pod), like.Status.Allocatable) {
			return like
		}
	}
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: slices.Clone(p.Taints)}}
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", karpenter.PoolLabel: p.GetName()}
	for _, r := range p.Rules {
		if v := p.Values(r.Key); len(v) > 0 {
			n.Labels[r.Key] = v[0]
		}
	}
	maps.Copy(n.Labels, p.Labels)
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		for _, v := range w.Values {
			if p.Permits(w.Key, v) {
				n.Labels[w.Key] = v
				break
			}
		}
	}
	have := podspec.Requests(c.Pod)
	for _, claim := range p.Claims {
		if list := karpenter.ResourceList(claim.Object, "status", "allocatable"); podspec.Fits(podspec.Requests(c.Pod), list) {
			have = list
			break
		}
	}
	have[corev1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	n.Status = corev1.NodeStatus{Capacity: have, Allocatable: maps.Clone(have), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
	return n
}

// karpenterExcess is a limit of a pool that more nodes would exceed.
type karpenterExcess struct {
	Resource          string
	Limit, Used, Node int64 // in the engine's units
}

// Excess finds the limits that n more nodes like the one would exceed, sorted by resource.
func Excess(p *karpenter.Pool, like *corev1.Node, n int) []karpenterExcess {
	limits := karpenter.ResourceList(p.Object, "spec", "limits")
	used := karpenter.ResourceList(p.Object, "status", "resources")
	var out []karpenterExcess
	for _, name := range podspec.Names(limits) {
		x := karpenterExcess{Resource: string(name), Limit: podspec.Amount(string(name), limits[name]), Used: podspec.Amount(string(name), used[name]), Node: 1}
		if name != "nodes" {
			x.Node = podspec.Amount(string(name), like.Status.Capacity[name])
		} else if _, ok := used[name]; !ok {
			x.Used = int64(len(p.Claims))
		}
		if x.Node > 0 && x.Used+int64(n)*x.Node > x.Limit {
			out = append(out, x)
		}
	}
	return out
}

// karpenterReservedOnly says whether nodes of the pool for the pod can be of reserved capacity alone.
func karpenterReservedOnly(c *check.Case, p *karpenter.Pool) bool {
	allowed := p.Values(karpenter.CapacityTypeLabel)
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if w.Key == karpenter.CapacityTypeLabel && len(w.Values) > 0 {
			allowed = w.Values
		}
	}
	return len(allowed) == 1 && allowed[0] == karpenter.Reserved
}

// KarpenterBooked counts the cluster's machines that are of the reservation.
func KarpenterBooked(f *facts.Facts, id string) int {
	n := 0
	for _, node := range f.Nodes {
		if node.Labels[karpenter.ReservationLabel] == id {
			n++
		}
	}
	return n
}

// KarpenterZones are the zones that the pod has to be in, by its own word or its volumes'; nil: any.
func KarpenterZones(c *check.Case) (zones []string, at *place.Need) {
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if w.Key == corev1.LabelTopologyZone && len(w.Values) > 0 {
			return w.Values, &w
		}
	}
	for _, v := range c.Pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		for _, pv := range c.PersistentVolumes {
			if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == c.Pod.Namespace && ref.Name == v.PersistentVolumeClaim.ClaimName {
				zones = append(zones, karpenterVolumeZones(pv)...)
			}
		}
	}
	return zones, nil
}

func karpenterVolumeZones(pv *corev1.PersistentVolume) (out []string) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			if e.Operator == corev1.NodeSelectorOpIn && strings.HasSuffix(e.Key, "/zone") {
				out = append(out, e.Values...)
			}
		}
	}
	return out
}

// KarpenterUnready says what is wrong with the class of a pool's nodes; "" where nothing is.
func KarpenterUnready(p *karpenter.Pool) (string, []facts.Evidence) {
	ref, _ := dialect.Value(p.Object, "spec", "template", "spec", "nodeClassRef").(map[string]any)
	class := dialect.Text(ref, "kind") + " " + dialect.Text(ref, "name")
	if p.Class != nil {
		if dialect.IsTrue(p.Class, "Ready") || dialect.ConditionOf(p.Class, "Ready") == nil {
			return karpenterInvalid(p)
		}
		for _, at := range dialect.Items(p.Class.Object, "status", "conditions") {
			kind := dialect.Text(at, "type")
			if kind != "Ready" && dialect.Text(at, "status") == "False" {
				return fmt.Sprintf("%s is not ready: %s is False: %s", class, kind, CloudText(cmp.Or(dialect.Text(at, "message"), dialect.Text(at, "reason")))), karpenterShows(p.Class, kind)
			}
		}
		if r := dialect.ConditionOf(p.Class, "Ready"); r.Status == "False" {
			return fmt.Sprintf("%s is not ready: %s", class, CloudText(cmp.Or(r.Message, r.Reason))), karpenterShows(p.Class, "Ready")
		}
		return karpenterInvalid(p)
	}
	if r := dialect.ConditionOf(p.Unstructured, "NodeClassReady"); r != nil && r.Status == "False" {
		return fmt.Sprintf("%s is not ready: %s", class, CloudText(cmp.Or(r.Message, r.Reason))), karpenterShows(p.Unstructured, "NodeClassReady")
	}
	return karpenterInvalid(p)
}

// karpenterInvalid is what is wrong with the pool by its own conditions: of several, the one that says more than Ready.
func karpenterInvalid(p *karpenter.Pool) (string, []facts.Evidence) {
	var found *facts.Condition
	for _, k := range facts.ConditionsOf(p.Unstructured) {
		if k.Status == "False" && k.Type != "NodeRegistrationHealthy" && k.Type != "NodeClassReady" && (found == nil || found.Type == "Ready") {
			found = &k
		}
	}
	if found == nil {
		return "", nil
	}
	return fmt.Sprintf("its own %s is False: %s", found.Type, CloudText(cmp.Or(found.Message, found.Reason))), karpenterShows(p.Unstructured, found.Type)
}

func karpenterShows(u *unstructured.Unstructured, kind string) []facts.Evidence {
	s := dialect.ConditionOf(u, kind)
	return []facts.Evidence{{Object: facts.RefTo(u).In(), Field: fmt.Sprintf("status.conditions[type=%q]", kind), Value: cmp.Or(s.Message, s.Reason, s.Status)}}
}
