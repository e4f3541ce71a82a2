package karpenter

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels of Karpenter.
const (
	PoolLabel         = "karpenter.sh/nodepool"
	CapacityTypeLabel = "karpenter.sh/capacity-type"
	ReservationLabel  = "karpenter.k8s.aws/capacity-reservation-id"
	Reserved          = "reserved"
)

// Pool is a NodePool: what nodes Karpenter may make.
type Pool struct {
	*unstructured.Unstructured
	Class  *unstructured.Unstructured // of its nodes; nil where it is not there, or was not seen
	Labels map[string]string
	Taints []corev1.Taint
	Rules  []Rule
	Nodes  []*corev1.Node
	Claims []*unstructured.Unstructured
}

// Rule is one requirement of a pool.
type Rule struct {
	Key, Operator string
	Values        []string
}

// ReadPools reads the NodePools that make nodes for pods that wait, by weight and name; static ones do not. class finds a
// node class by "Kind.group" and name.
func ReadPools(pools, claims []*unstructured.Unstructured, nodes []*corev1.Node, class func(kind, name string) *unstructured.Unstructured) []*Pool {
	var out []*Pool
	for _, u := range pools {
		if _, static := dialect.Number(u.Object, "spec", "replicas"); static || u.GetDeletionTimestamp() != nil {
			continue
		}
		p := readPool(u)
		ref, _ := dialect.Value(u.Object, "spec", "template", "spec", "nodeClassRef").(map[string]any)
		p.Class = class(dialect.Text(ref, "kind")+"."+dialect.Text(ref, "group"), dialect.Text(ref, "name"))
		for _, n := range nodes {
			if n.Labels[PoolLabel] == u.GetName() {
				p.Nodes = append(p.Nodes, n)
			}
		}
		for _, claim := range claims {
			if claim.GetLabels()[PoolLabel] == u.GetName() {
				p.Claims = append(p.Claims, claim)
			}
		}
		out = append(out, p)
	}
	weight := func(p *Pool) int64 { n, _ := dialect.Number(p.Object, "spec", "weight"); return n }
	slices.SortFunc(out, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// readPool reads what the NodePool itself says of its nodes.
func readPool(u *unstructured.Unstructured) *Pool {
	p := &Pool{Unstructured: u, Labels: dialect.StringMap(u.Object, "spec", "template", "metadata", "labels")}
	for _, t := range dialect.Items(u.Object, "spec", "template", "spec", "taints") {
		p.Taints = append(p.Taints, corev1.Taint{Key: dialect.Text(t, "key"), Value: dialect.Text(t, "value"), Effect: corev1.TaintEffect(dialect.Text(t, "effect"))})
	}
	for _, r := range dialect.Items(u.Object, "spec", "template", "spec", "requirements") {
		p.Rules = append(p.Rules, Rule{Key: dialect.Text(r, "key"), Operator: dialect.Text(r, "operator"), Values: dialect.Strings(r, "values")})
	}
	return p
}

// allows says whether the rule lets a node have the value.
func (r *Rule) allows(value string) bool {
	switch r.Operator {
	case "In":
		return slices.Contains(r.Values, value)
	case "NotIn":
		return !slices.Contains(r.Values, value)
	case "DoesNotExist":
		return false
	case "Gt", "Gte", "Lt", "Lte":
		have, err := strconv.ParseInt(value, 10, 64)
		than, bad := strconv.ParseInt(strings.Join(r.Values, ""), 10, 64)
		if err != nil || bad != nil {
			return false
		}
		switch r.Operator {
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

// wellKnownLabels are labels that Karpenter gives nodes by itself, so that no pool has to name them. The provider may
// have more of its own.
var wellKnownLabels = regexp.MustCompile(`^(topology\.kubernetes\.io/(zone|region)|node\.kubernetes\.io/(instance-type|windows-build)|kubernetes\.io/(arch|os)|karpenter\.sh/(nodepool|capacity-type)|karpenter\.k8s\.aws/.+|karpenter\.azure\.com/.+|topology\.k8s\.aws/.+|eks\.amazonaws\.com/.+|cloud\.google\.com/.+)$`)

// Knows says whether the pool's nodes may have the label at all.
func (p *Pool) Knows(key string) bool {
	if _, ok := p.Labels[key]; ok || wellKnownLabels.MatchString(key) {
		return true
	}
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Key == key && r.Operator != "DoesNotExist" })
}

// Permits says whether a node of the pool may have the label with the value.
func (p *Pool) Permits(key, value string) bool {
	if key == PoolLabel {
		return value == p.GetName()
	}
	if v, ok := p.Labels[key]; ok && v != value {
		return false
	}
	if zones := p.zones(); key == corev1.LabelTopologyZone && len(zones) > 0 && !slices.Contains(zones, value) {
		return false
	}
	if ids := p.reserved(); key == ReservationLabel && len(ids) > 0 && !slices.Contains(ids, value) {
		return false
	}
	return p.Knows(key) && !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Key == key && !r.allows(value) })
}

// reserved are the reservations that the class has found or names; nil where that is not known: it may select them by tags, and have found none yet.
func (p *Pool) reserved() (ids []string) {
	for _, r := range p.Reservations() {
		ids = append(ids, r.Id)
	}
	if len(ids) == 0 {
		return nil
	}
	for _, t := range dialect.Items(p.Class.Object, "spec", "capacityReservationSelectorTerms") {
		if id := dialect.Text(t, "id"); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// zones are those of the class's subnets; nil where that is not known.
func (p *Pool) zones() []string {
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
func (p *Pool) Values(key string) []string {
	if v, ok := p.Labels[key]; ok {
		return []string{v}
	}
	var out []string
	if key == ReservationLabel {
		out = p.reserved()
	}
	for _, r := range p.Rules {
		if r.Key == key && r.Operator == "In" {
			for _, v := range r.Values {
				if p.Permits(key, v) {
					out = append(out, v)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Meets says whether a node of the pool may satisfy the expression.
func (p *Pool) Meets(e corev1.NodeSelectorRequirement) bool {
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
		return !has && !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Key == e.Key })
	}
	than := Rule{Operator: string(e.Operator), Values: e.Values}
	return len(named) == 0 && p.Knows(e.Key) || slices.ContainsFunc(named, than.allows)
}

var gpuInstanceType = regexp.MustCompile(`^(Standard_N|[pg]\d|gr\d|a[234]-|g2-|BM\.GPU|VM\.GPU)`)

// HasGPU says whether machines of the type have GPUs, by the name that their cloud gives them.
func HasGPU(machine string) bool { return gpuInstanceType.MatchString(machine) }

// machineName is how clouds call types of machines: p5.48xlarge, Standard_ND96isr_H100_v5, a3-highgpu-8g.
var machineName = regexp.MustCompile(`\b([a-z][a-z0-9-]*\.(?:\d*x?large|medium|small|micro|nano|metal(?:-\d+xl)?)|Standard_[A-Z]\w+|[a-z]\d[a-z]?-(?:standard|high\w+|mega\w+|ultra\w+)-\d+\w*)\b`)

// MachinesIn are the types of machines that a text names.
func MachinesIn(text string) []string { return machineName.FindAllString(text, -1) }

func LargestCount(values []string) (most int64) {
	for _, v := range values {
		n, _ := strconv.ParseInt(v, 10, 64)
		most = max(most, n)
	}
	return most
}

// WithoutGPUs says whether the pool's own rules leave only machines without GPUs.
func (p *Pool) WithoutGPUs() bool {
	for _, r := range p.Rules {
		if r.Operator != "In" {
			continue
		}
		var gpu func(string) bool
		switch r.Key {
		case corev1.LabelInstanceTypeStable, "karpenter.k8s.aws/instance-family", "eks.amazonaws.com/instance-family", "karpenter.azure.com/sku-name":
			gpu = gpuInstanceType.MatchString
		case "karpenter.k8s.aws/instance-category", "eks.amazonaws.com/instance-category":
			gpu = func(v string) bool { return v == "p" || v == "g" || v == "gr" }
		case "karpenter.azure.com/sku-family":
			gpu = func(v string) bool { return v == "N" }
		default:
			continue
		}
		if !slices.ContainsFunc(r.Values, gpu) {
			return true
		}
	}
	return false
}

// Shapes are what nodes of the pool have, as far as some are or were there.
func (p *Pool) Shapes() []corev1.ResourceList {
	var out []corev1.ResourceList
	for _, n := range p.Nodes {
		out = append(out, n.Status.Capacity)
	}
	for _, claim := range p.Claims {
		if list := ResourceList(claim.Object, "status", "capacity"); len(list) > 0 {
			out = append(out, list)
		}
	}
	return out
}

// ResourceList reads quantities by resource.
func ResourceList(at any, path ...string) corev1.ResourceList {
	m, _ := dialect.Value(at, path...).(map[string]any)
	out := corev1.ResourceList{}
	for name, v := range m {
		if q, err := resource.ParseQuantity(fmt.Sprint(v)); err == nil {
			out[corev1.ResourceName(name)] = q
		}
	}
	return out
}

// Reservation is a reservation of capacity that a class has found: Karpenter lists those that are active.
type Reservation struct {
	Id, Machine, Zone, Kind, State string
	End                            string // "": none
}

func (p *Pool) Reservations() []Reservation {
	if p.Class == nil {
		return nil
	}
	var out []Reservation
	for _, r := range dialect.Items(p.Class.Object, "status", "capacityReservations") {
		out = append(out, Reservation{Id: dialect.Text(r, "id"), Machine: dialect.Text(r, "instanceType"), Zone: dialect.Text(r, "availabilityZone"), Kind: dialect.Text(r, "reservationType"), State: dialect.Text(r, "state"), End: dialect.Text(r, "endTime")})
	}
	slices.SortFunc(out, func(a, b Reservation) int { return cmp.Compare(a.Id, b.Id) })
	return out
}

// Claimed says whether a NodeClaim of the name was the pool's: Karpenter adds a dash and some letters.
func (p *Pool) Claimed(name string) bool {
	rest, ok := strings.CutPrefix(name, p.GetName()+"-")
	return ok && rest != "" && !strings.Contains(rest, "-")
}

// Text names the reservation.
func (r Reservation) Text() string {
	return fmt.Sprintf("%s (%s in %s)", r.Id, cmp.Or(r.Machine, "machines"), cmp.Or(r.Zone, "an unknown zone"))
}
