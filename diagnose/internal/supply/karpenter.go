package supply

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
)

// Labels of Karpenter.
const (
	KarpenterPoolLabel     = "karpenter.sh/nodepool"
	KarpenterCapacityLabel = "karpenter.sh/capacity-type"
	karpenterBookedLabel   = "karpenter.k8s.aws/capacity-reservation-id"
	KarpenterReserved      = "reserved"
)

// KarpenterPool is a NodePool: what nodes Karpenter may make.
type KarpenterPool struct {
	*unstructured.Unstructured
	Class  *unstructured.Unstructured // of its nodes; nil where it is not there, or was not seen
	Labels map[string]string
	taints []corev1.Taint
	Rules  []karpenterRule
	nodes  []*corev1.Node
	Claims []*unstructured.Unstructured
}

// karpenterRule is one requirement of a pool.
type karpenterRule struct {
	Key, operator string
	values        []string
}

// KarpenterPools are the pools that make nodes for pods that wait, by weight and name. Static ones do not.
func KarpenterPools(f *facts.Facts) []*KarpenterPool { return autoscaling(f).pools }

func readKarpenter(f *facts.Facts) []*KarpenterPool {
	var out []*KarpenterPool
	for _, u := range f.Foreign["NodePool.karpenter.sh"] {
		if _, static := dialect.Number(u.Object, "spec", "replicas"); static || u.GetDeletionTimestamp() != nil {
			continue
		}
		out = append(out, readKarpenterPool(f, u))
	}
	weight := func(p *KarpenterPool) int64 { n, _ := dialect.Number(p.Object, "spec", "weight"); return n }
	slices.SortFunc(out, func(a, b *KarpenterPool) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

func readKarpenterPool(f *facts.Facts, u *unstructured.Unstructured) *KarpenterPool {
	p := &KarpenterPool{Unstructured: u, Labels: dialect.StringMap(u.Object, "spec", "template", "metadata", "labels")}
	for _, t := range dialect.Items(u.Object, "spec", "template", "spec", "taints") {
		p.taints = append(p.taints, corev1.Taint{Key: dialect.Text(t, "key"), Value: dialect.Text(t, "value"), Effect: corev1.TaintEffect(dialect.Text(t, "effect"))})
	}
	for _, r := range dialect.Items(u.Object, "spec", "template", "spec", "requirements") {
		p.Rules = append(p.Rules, karpenterRule{Key: dialect.Text(r, "key"), operator: dialect.Text(r, "operator"), values: dialect.Strings(r, "values")})
	}
	ref, _ := dialect.Value(u.Object, "spec", "template", "spec", "nodeClassRef").(map[string]any)
	p.Class = f.ForeignNamed(dialect.Text(ref, "kind")+"."+dialect.Text(ref, "group"), "", dialect.Text(ref, "name"))
	for _, n := range f.Nodes {
		if n.Labels[KarpenterPoolLabel] == u.GetName() {
			p.nodes = append(p.nodes, n)
		}
	}
	for _, claim := range f.Foreign["NodeClaim.karpenter.sh"] {
		if claim.GetLabels()[KarpenterPoolLabel] == u.GetName() {
			p.Claims = append(p.Claims, claim)
		}
	}
	return p
}

// allows says whether the rule lets a node have the value.
func (r *karpenterRule) allows(value string) bool {
	switch r.operator {
	case "In":
		return slices.Contains(r.values, value)
	case "NotIn":
		return !slices.Contains(r.values, value)
	case "DoesNotExist":
		return false
	case "Gt", "Gte", "Lt", "Lte":
		have, err := strconv.ParseInt(value, 10, 64)
		than, bad := strconv.ParseInt(strings.Join(r.values, ""), 10, 64)
		if err != nil || bad != nil {
			return false
		}
		switch r.operator {
		case "Gt":
			return have > than
		case "Gte":
			return have >= than
		case "Lt":
			return have < than
		}
		return have <= than
	}
	return true
}

// karpenterKnown are labels that Karpenter gives nodes by itself, so that no pool has to name them. The provider may
// have more of its own.
var karpenterKnown = regexp.MustCompile(`^(topology\.kubernetes\.io/(zone|region)|node\.kubernetes\.io/(instance-type|windows-build)|kubernetes\.io/(arch|os)|karpenter\.sh/(nodepool|capacity-type)|karpenter\.k8s\.aws/.+|karpenter\.azure\.com/.+|topology\.k8s\.aws/.+|eks\.amazonaws\.com/.+|cloud\.google\.com/.+)$`)

// Knows says whether the pool's nodes may have the label at all.
func (p *KarpenterPool) Knows(key string) bool {
	if _, ok := p.Labels[key]; ok || karpenterKnown.MatchString(key) {
		return true
	}
	return slices.ContainsFunc(p.Rules, func(r karpenterRule) bool { return r.Key == key && r.operator != "DoesNotExist" })
}

// Permits says whether a node of the pool may have the label with the value.
func (p *KarpenterPool) Permits(key, value string) bool {
	if key == KarpenterPoolLabel {
		return value == p.GetName()
	}
	if v, ok := p.Labels[key]; ok && v != value {
		return false
	}
	if zones := p.zones(); key == corev1.LabelTopologyZone && len(zones) > 0 && !slices.Contains(zones, value) {
		return false
	}
	return p.Knows(key) && !slices.ContainsFunc(p.Rules, func(r karpenterRule) bool { return r.Key == key && !r.allows(value) })
}

// zones are those of the class's subnets; nil where that is not known.
func (p *KarpenterPool) zones() []string {
	if p.Class == nil {
		return nil
	}
	var out []string
	for _, s := range dialect.Items(p.Class.Object, "status", "subnets") {
		if z := dialect.Text(s, "zone"); z != "" {
			out = append(out, z)
		}
	}
	return out
}

// Values are those of the label that the pool names, sorted; nil: it names none.
func (p *KarpenterPool) Values(key string) []string {
	if v, ok := p.Labels[key]; ok {
		return []string{v}
	}
	var out []string
	for _, r := range p.Rules {
		if r.Key == key && r.operator == "In" {
			for _, v := range r.values {
				if p.Permits(key, v) {
					out = append(out, v)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// meets says whether a node of the pool may satisfy the expression.
func (p *KarpenterPool) meets(e corev1.NodeSelectorRequirement) bool {
	named := p.Values(e.Key)
	switch e.Operator {
	case corev1.NodeSelectorOpIn:
		return slices.ContainsFunc(e.Values, func(v string) bool { return p.Permits(e.Key, v) })
	case corev1.NodeSelectorOpNotIn:
		return len(named) == 0 || slices.ContainsFunc(named, func(v string) bool { return !slices.Contains(e.Values, v) })
	case corev1.NodeSelectorOpExists:
		return p.Knows(e.Key)
	case corev1.NodeSelectorOpDoesNotExist:
		_, has := p.Labels[e.Key]
		return !has && !slices.ContainsFunc(p.Rules, func(r karpenterRule) bool { return r.Key == e.Key })
	}
	than := karpenterRule{operator: string(e.Operator), values: e.Values}
	return len(named) == 0 && p.Knows(e.Key) || slices.ContainsFunc(named, than.allows)
}

// KarpenterObstacle is one thing that keeps Karpenter from making a node of a pool for a pod.
type KarpenterObstacle struct {
	Text  string
	Need  *place.Need   // of the pod, that the pool cannot meet
	Taint *corev1.Taint // of the pool, that the pod does not tolerate
	Size  bool          // the pool's nodes are too small, or lack the device
}

// KarpenterObstacles are what keeps the pool from having a node for the pod; none: it could make one.
func KarpenterObstacles(c *check.Case, p *KarpenterPool) []KarpenterObstacle {
	var out []KarpenterObstacle
	for _, key := range slices.Sorted(maps.Keys(c.Pod.Spec.NodeSelector)) {
		v := c.Pod.Spec.NodeSelector[key]
		out = append(out, p.misses(corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{v}}, -1, -1)...)
	}
	out = append(out, p.missesTerms(place.Terms(&c.Pod.Spec))...)
	fresh := &corev1.Node{Spec: corev1.NodeSpec{Taints: p.taints}}
	for _, t := range podspec.Untolerated(c.Pod, fresh) {
		out = append(out, KarpenterObstacle{Taint: &t, Text: "the pod does not tolerate its taint " + podspec.TaintText(t)})
	}
	if text := karpenterTooSmall(c, p); text != "" {
		out = append(out, KarpenterObstacle{Size: true, Text: text})
	}
	return out
}

func (p *KarpenterPool) misses(e corev1.NodeSelectorRequirement, term, expr int) []KarpenterObstacle {
	if p.meets(e) {
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
func (p *KarpenterPool) missesTerms(all []corev1.NodeSelectorTerm) (fewest []KarpenterObstacle) {
	for i, t := range all {
		var out []KarpenterObstacle
		for j, e := range t.MatchExpressions {
			out = append(out, p.misses(e, i, j)...)
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

var karpenterGPUType = regexp.MustCompile(`^(Standard_N|[pg]\d|gr\d|a[234]-|g2-|BM\.GPU|VM\.GPU)`)

// karpenterTooSmall says in what way the pool's nodes are too small for the pod; "" where they are not, or nobody can
// tell: which machines a cloud has is not in the cluster.
func karpenterTooSmall(c *check.Case, p *KarpenterPool) string {
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
	if most == 0 && p.withoutGPUs() {
		return "its nodes have no " + device
	}
	for _, r := range p.Rules {
		if r.Key == "karpenter.k8s.aws/instance-gpu-count" && r.operator == "In" {
			most = max(most, karpenterLargest(r.values))
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

func karpenterLargest(values []string) (most int64) {
	for _, v := range values {
		n, _ := strconv.ParseInt(v, 10, 64)
		most = max(most, n)
	}
	return most
}

// withoutGPUs says whether the pool's own rules leave only machines without GPUs.
func (p *KarpenterPool) withoutGPUs() bool {
	for _, r := range p.Rules {
		if r.operator != "In" {
			continue
		}
		var gpu func(string) bool
		switch r.Key {
		case corev1.LabelInstanceTypeStable, "karpenter.k8s.aws/instance-family", "eks.amazonaws.com/instance-family", "karpenter.azure.com/sku-name":
			gpu = karpenterGPUType.MatchString
		case "karpenter.k8s.aws/instance-category", "eks.amazonaws.com/instance-category":
			gpu = func(v string) bool { return v == "p" || v == "g" || v == "gr" }
		case "karpenter.azure.com/sku-family":
			gpu = func(v string) bool { return v == "N" }
		default:
			continue
		}
		if !slices.ContainsFunc(r.values, gpu) {
			return true
		}
	}
	return false
}

// Shapes are what nodes of the pool have, as far as some are or were there.
func (p *KarpenterPool) Shapes() []corev1.ResourceList {
	var out []corev1.ResourceList
	for _, n := range p.nodes {
		out = append(out, n.Status.Capacity)
	}
	for _, claim := range p.Claims {
		if list := KarpenterList(claim.Object, "status", "capacity"); len(list) > 0 {
			out = append(out, list)
		}
	}
	return out
}

// KarpenterList reads quantities by resource.
func KarpenterList(at any, path ...string) corev1.ResourceList {
	m, _ := dialect.Value(at, path...).(map[string]any)
	out := corev1.ResourceList{}
	for name, v := range m {
		if q, err := resource.ParseQuantity(fmt.Sprint(v)); err == nil {
			out[corev1.ResourceName(name)] = q
		}
	}
	return out
}

// KarpenterNode is a node as Karpenter would make one of the pool for the pod.
func KarpenterNode(c *check.Case, p *KarpenterPool) *corev1.Node {
	for _, n := range p.nodes[:min(len(p.nodes), autoscalerSample)] {
		like := gpustack.Repaired(c.Facts, n)
		like.Spec.Taints = slices.Clone(p.taints)
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(c.Pod).Match(like); ok && err == nil && podspec.Fits(podspec.Requests(c.Pod), like.Status.Allocatable) {
			return like
		}
	}
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: slices.Clone(p.taints)}}
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", KarpenterPoolLabel: p.GetName()}
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
		if list := KarpenterList(claim.Object, "status", "allocatable"); podspec.Fits(podspec.Requests(c.Pod), list) {
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
func (p *KarpenterPool) Excess(like *corev1.Node, n int) []karpenterExcess {
	limits := KarpenterList(p.Object, "spec", "limits")
	used := KarpenterList(p.Object, "status", "resources")
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
func karpenterReservedOnly(c *check.Case, p *KarpenterPool) bool {
	allowed := p.Values(KarpenterCapacityLabel)
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if w.Key == KarpenterCapacityLabel && len(w.Values) > 0 {
			allowed = w.Values
		}
	}
	return len(allowed) == 1 && allowed[0] == KarpenterReserved
}

// karpenterReservation is a reservation of capacity that a class has found: Karpenter lists those that are active.
type karpenterReservation struct {
	Id, machine, Zone, kind, State string
	End                            string // "": none
}

func (p *KarpenterPool) reservations() []karpenterReservation {
	if p.Class == nil {
		return nil
	}
	var out []karpenterReservation
	for _, r := range dialect.Items(p.Class.Object, "status", "capacityReservations") {
		out = append(out, karpenterReservation{Id: dialect.Text(r, "id"), machine: dialect.Text(r, "instanceType"), Zone: dialect.Text(r, "availabilityZone"), kind: dialect.Text(r, "reservationType"), State: dialect.Text(r, "state"), End: dialect.Text(r, "endTime")})
	}
	slices.SortFunc(out, func(a, b karpenterReservation) int { return cmp.Compare(a.Id, b.Id) })
	return out
}

// KarpenterBooked counts the cluster's machines that are of the reservation.
func KarpenterBooked(f *facts.Facts, id string) int {
	n := 0
	for _, node := range f.Nodes {
		if node.Labels[karpenterBookedLabel] == id {
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
func KarpenterUnready(p *KarpenterPool) (string, []facts.Evidence) {
	ref, _ := dialect.Value(p.Object, "spec", "template", "spec", "nodeClassRef").(map[string]any)
	class := dialect.Text(ref, "kind") + " " + dialect.Text(ref, "name")
	if p.Class != nil {
		if dialect.IsTrue(p.Class, "Ready") || dialect.ConditionOf(p.Class, "Ready") == nil {
			return "", nil
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
		return "", nil
	}
	if r := dialect.ConditionOf(p.Unstructured, "NodeClassReady"); r != nil && r.Status == "False" {
		return fmt.Sprintf("%s is not ready: %s", class, CloudText(cmp.Or(r.Message, r.Reason))), karpenterShows(p.Unstructured, "NodeClassReady")
	}
	return "", nil
}

func karpenterShows(u *unstructured.Unstructured, kind string) []facts.Evidence {
	s := dialect.ConditionOf(u, kind)
	return []facts.Evidence{{Object: facts.RefTo(u).In(), Field: fmt.Sprintf("status.conditions[type=%q]", kind), Value: cmp.Or(s.Message, s.Reason, s.Status)}}
}
