package supply

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// This file is about capacity that is reserved, and paid for, at the provider, as far as Karpenter's objects show it.

// reservedPool is a pool for the pod whose nodes can only be of reserved capacity.
type reservedPool struct {
	*AutoscalerSource
	Selects bool                    // its class names reservations
	Active  []karpenter.Reservation // that it found, and which last
	Over    []karpenter.Reservation // that it found, and which have ended or are about to
}

// reservationEnds is how long before its end a block of capacity is of no use: the provider takes its machines, and
// Karpenter drains them, before.
const reservationEnds = 40 * time.Minute

// KarpenterReservedPools are those of the case.
func KarpenterReservedPools(c *check.Case) []*reservedPool {
	if AutoscalerStuck(c) == nil {
		return nil
	}
	var out []*reservedPool
	for _, s := range AutoscalerSources(c) {
		if s.Pool == nil || s.Pool.Class == nil || s.Pool.Class.GetKind() != "EC2NodeClass" || !karpenterReservedOnly(c, s.Pool) {
			continue
		}
		p := &reservedPool{AutoscalerSource: s, Selects: len(dialect.Items(s.Pool.Class.Object, "spec", "capacityReservationSelectorTerms")) > 0}
		p.Active, p.Over = KarpenterLasting(c, s.Pool)
		out = append(out, p)
	}
	return out
}

// KarpenterLasting parts the reservations of a pool's class into those that last and those that do not.
func KarpenterLasting(c *check.Case, p *karpenter.Pool) (active, over []karpenter.Reservation) {
	for _, r := range p.Reservations() {
		end, err := time.Parse(time.RFC3339, r.End)
		left := end.Sub(c.Now)
		if r.State != "" && r.State != "active" && r.State != "expiring" || err == nil && (left <= 0 || r.Kind == "capacity-block" && left <= reservationEnds) {
			over = append(over, r)
			continue
		}
		active = append(active, r)
	}
	return active, over
}

// Suitable are the reservations of machines that the pool may make for the pod, wherever they are.
func Suitable(p *karpenter.Pool, c *check.Case, all []karpenter.Reservation) []karpenter.Reservation {
	var types []string
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if w.Key == corev1.LabelInstanceTypeStable {
			types = w.Values
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r karpenter.Reservation) bool {
		return !p.Permits(corev1.LabelInstanceTypeStable, r.Machine) || len(types) > 0 && !slices.Contains(types, r.Machine)
	})
}

// InReach says whether the pool may make a node for the pod in the reservation's zone.
func InReach(p *karpenter.Pool, c *check.Case, r karpenter.Reservation) bool {
	zones, _ := KarpenterZones(c)
	return p.Permits(corev1.LabelTopologyZone, r.Zone) && (len(zones) == 0 || slices.Contains(zones, r.Zone))
}

// MayBeOf says whether the pod leaves open which reservation its node is of, or asks for this one.
func MayBeOf(c *check.Case, r karpenter.Reservation) bool {
	return !slices.ContainsFunc(place.NeedsOf(&c.Pod.Spec), func(w place.Need) bool {
		return w.Key == karpenter.ReservationLabel && len(w.Values) > 0 && !slices.Contains(w.Values, r.Id)
	})
}

// KarpenterOnDemand lets the pool's nodes be on demand, too.
func KarpenterOnDemand(c *check.Case, s *AutoscalerSource) []edit.Edit {
	e, ok := KarpenterCapacity(c, s, "on-demand")
	if !ok {
		return nil
	}
	e.Assumes = "the provider has such machines on demand, and somebody pays for them"
	return []edit.Edit{e}
}

// KarpenterCapacity adds a kind of capacity to those that the pool may use.
func KarpenterCapacity(c *check.Case, s *AutoscalerSource, kind string) (edit.Edit, bool) {
	if slices.ContainsFunc(place.NeedsOf(&c.Pod.Spec), func(w place.Need) bool {
		return w.Key == karpenter.CapacityTypeLabel && !slices.Contains(w.Values, kind) || w.Key == karpenter.ReservationLabel && kind != karpenter.Reserved
	}) {
		return edit.Edit{}, false // the pod itself says otherwise
	}
	at := slices.IndexFunc(s.Pool.Rules, func(r karpenter.Rule) bool { return r.Key == karpenter.CapacityTypeLabel && r.Operator == "In" })
	if at < 0 {
		return edit.Edit{}, false
	}
	pool := s.Pool.DeepCopy()
	list, _, _ := unstructured.NestedSlice(pool.Object, "spec", "template", "spec", "requirements")
	rule, _ := list[at].(map[string]any)
	values, _ := rule["values"].([]any)
	rule["values"] = append(values, kind)
	if unstructured.SetNestedSlice(pool.Object, list, "spec", "template", "spec", "requirements") != nil {
		return edit.Edit{}, false
	}
	like := s.Like.DeepCopy()
	like.Labels = gpustack.WithLabel(like.Labels, karpenter.CapacityTypeLabel, kind)
	path := fmt.Sprintf("/spec/template/spec/requirements/%d/values/-", at)
	return edit.Edit{
		Side: edit.Cluster, Cost: edit.CostConsent, Set: append([]facts.Object{pool}, AutoscalerNodes(c, &AutoscalerSource{Pool: s.Pool, Like: like})...),
		Text:    fmt.Sprintf("let NodePool %s make %s nodes, too", s.Pool.GetName(), kind),
		Command: fmt.Sprintf("kubectl patch nodepool %s --type=json -p %s", s.Pool.GetName(), edit.QuoteOps([]edit.Op{{Op: "add", Path: path, Value: kind}})),
	}, true
}

// KarpenterReservationShown is evidence from the class of the pool.
func KarpenterReservationShown(p *karpenter.Pool, value string) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(p.Class).In(), Field: "status.capacityReservations", Value: value}
}
