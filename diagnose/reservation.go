package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/kube/dialect"
)

// This file is about capacity that is reserved, and paid for, at the provider, as far as Karpenter's objects show it.

// reservedPool is a pool for the pod whose nodes can only be of reserved capacity.
type reservedPool struct {
	*autoscalerSource
	selects bool                   // its class names reservations
	active  []karpenterReservation // that it found, and which last
	over    []karpenterReservation // that it found, and which have ended or are about to
}

// reservationEnds is how long before its end a block of capacity is of no use: the provider takes its machines, and
// Karpenter drains them, before.
const reservationEnds = 40 * time.Minute

// karpenterReservedPools are those of the case.
func (c *Case) karpenterReservedPools() []*reservedPool {
	if c.autoscalerStuck() == nil {
		return nil
	}
	var out []*reservedPool
	for _, s := range c.autoscalerSources() {
		if s.pool == nil || s.pool.class == nil || s.pool.class.GetKind() != "EC2NodeClass" || !c.karpenterReservedOnly(s.pool) {
			continue
		}
		p := &reservedPool{autoscalerSource: s, selects: len(dialect.Items(s.pool.class.Object, "spec", "capacityReservationSelectorTerms")) > 0}
		p.active, p.over = c.karpenterLasting(s.pool)
		out = append(out, p)
	}
	return out
}

// karpenterLasting parts the reservations of a pool's class into those that last and those that do not.
func (c *Case) karpenterLasting(p *karpenterPool) (active, over []karpenterReservation) {
	for _, r := range p.reservations() {
		end, err := time.Parse(time.RFC3339, r.end)
		left := end.Sub(c.Now)
		if r.state != "" && r.state != "active" && r.state != "expiring" || err == nil && (left <= 0 || r.kind == "capacity-block" && left <= reservationEnds) {
			over = append(over, r)
			continue
		}
		active = append(active, r)
	}
	return active, over
}

// suitable are the reservations of machines that the pool may make for the pod, wherever they are.
func (p *karpenterPool) suitable(c *Case, all []karpenterReservation) []karpenterReservation {
	var types []string
	for _, w := range needsOf(&c.Pod.Spec) {
		if w.key == corev1.LabelInstanceTypeStable {
			types = w.values
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r karpenterReservation) bool {
		return !p.permits(corev1.LabelInstanceTypeStable, r.machine) || len(types) > 0 && !slices.Contains(types, r.machine)
	})
}

// inReach says whether the pool may make a node for the pod in the reservation's zone.
func (p *karpenterPool) inReach(c *Case, r karpenterReservation) bool {
	zones, _ := c.karpenterZones()
	return p.permits(corev1.LabelTopologyZone, r.zone) && (len(zones) == 0 || slices.Contains(zones, r.zone))
}

// text names the reservation.
func (r karpenterReservation) text() string {
	return fmt.Sprintf("%s (%s in %s)", r.id, cmp.Or(r.machine, "machines"), cmp.Or(r.zone, "an unknown zone"))
}

// karpenterOnDemand lets the pool's nodes be on demand, too.
func (c *Case) karpenterOnDemand(s *autoscalerSource) []edit.Edit {
	e, ok := c.karpenterCapacity(s, "on-demand")
	if !ok {
		return nil
	}
	e.Assumes = "the provider has such machines on demand, and somebody pays for them"
	return []edit.Edit{e}
}

// karpenterCapacity adds a kind of capacity to those that the pool may use.
func (c *Case) karpenterCapacity(s *autoscalerSource, kind string) (edit.Edit, bool) {
	if slices.ContainsFunc(needsOf(&c.Pod.Spec), func(w need) bool { return w.key == karpenterCapacityLabel && !slices.Contains(w.values, kind) }) {
		return edit.Edit{}, false // the pod itself says otherwise
	}
	at := slices.IndexFunc(s.pool.rules, func(r karpenterRule) bool { return r.key == karpenterCapacityLabel && r.operator == "In" })
	if at < 0 {
		return edit.Edit{}, false
	}
	pool := s.pool.DeepCopy()
	list, _, _ := unstructured.NestedSlice(pool.Object, "spec", "template", "spec", "requirements")
	rule, _ := list[at].(map[string]any)
	values, _ := rule["values"].([]any)
	rule["values"] = append(values, kind)
	if unstructured.SetNestedSlice(pool.Object, list, "spec", "template", "spec", "requirements") != nil {
		return edit.Edit{}, false
	}
	like := s.like.DeepCopy()
	like.Labels = gpustack.WithLabel(like.Labels, karpenterCapacityLabel, kind)
	path := fmt.Sprintf("/spec/template/spec/requirements/%d/values/-", at)
	return edit.Edit{
		Side: edit.Cluster, Cost: edit.CostConsent, Set: append([]facts.Object{pool}, c.autoscalerNodes(&autoscalerSource{pool: s.pool, like: like})...),
		Text:    fmt.Sprintf("let NodePool %s make %s nodes, too", s.pool.GetName(), kind),
		Command: fmt.Sprintf("kubectl patch nodepool %s --type=json -p %s", s.pool.GetName(), edit.QuoteOps([]edit.Op{{Op: "add", Path: path, Value: kind}})),
	}, true
}

// karpenterReservationShown is evidence from the class of the pool.
func karpenterReservationShown(p *karpenterPool, value string) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(p.class).In(), Field: "status.capacityReservations", Value: value}
}
