package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Times of Karpenter.
const (
	batchIdle      = time.Second      // pkg/operator/options/options.go, BATCH_IDLE_DURATION
	batchMax       = 10 * time.Second // the same, BATCH_MAX_DURATION
	launchTTL      = 5 * time.Minute  // pkg/controllers/nodeclaim/lifecycle/liveness.go, LaunchTimeout
	registerTTL    = 15 * time.Minute // the same, registrationTimeout
	disruptEvery   = 10 * time.Second // pkg/controllers/disruption/controller.go, pollingPeriod
	podEventTTL    = 10 * time.Second // pkg/controllers/nodeclaim/podevents/controller.go, dedupeTimeout
	unavailableTTL = 3 * time.Minute  // aws/karpenter-provider-aws: pkg/cache/cache.go, UnavailableOfferingsTTL
	nominatedTTL   = 20 * time.Second // pkg/controllers/state/statenode.go, nominationWindow
	eventTTL       = 2 * time.Minute  // pkg/events/recorder.go, defaultDedupeTimeout
	failedTTL      = 5 * time.Minute  // pkg/controllers/provisioning/scheduling/events.go, PodFailedToScheduleEvent
)

// karpenter plays Karpenter. Its provider's node class is the Pool, whose machines are of one type.
type karpenter struct {
	*api
	unavailable map[string]time.Time // offerings that were refused, by key, until when
	podsOn      map[string]string    // which pods a claim's node had, by claim
	disrupted   time.Time            // when it was last looked for nodes to disrupt
	made        map[types.UID]bool   // Pools that have their NodePool from here
	commands    []*command           // nodes that are being disrupted
	nominated   map[string]time.Time // nodes and claims that pods were put on, by name, until when they are kept for them
	repairAt    map[string]time.Time // claims whose repair was blocked, by name, until when it is
	health      map[types.UID][]bool // by NodePool, its last claims that became nodes or did not; see tellHealth
}

func newKarpenter(a *api) *karpenter {
	return &karpenter{api: a, unavailable: make(map[string]time.Time), podsOn: make(map[string]string), made: make(map[types.UID]bool), nominated: make(map[string]time.Time), repairAt: make(map[string]time.Time), health: make(map[types.UID][]bool)}
}

func (k *karpenter) look(ctx context.Context, w *world) error {
	pools, err := list[nodePool](ctx, k.api, nodePoolResource)
	if err != nil {
		return err
	}
	if err := k.makeNodePools(ctx, w, pools); err != nil {
		return err
	}
	claims, err := list[nodeClaim](ctx, k.api, nodeClaimResource)
	if err != nil {
		return err
	}
	slices.SortFunc(claims, func(a, b nodeClaim) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(pools, func(a, b nodePool) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), strings.Compare(a.Name, b.Name))
	})
	var problems []error
	for i := range pools {
		problems = append(problems, k.rehash(ctx, w, &pools[i], claims))
	}
	problems = append(problems, k.carryOn(ctx, w, claims), k.cleanUp(ctx, w, claims))
	for i := range claims {
		if err := k.reconcile(ctx, w, &claims[i], pools); err != nil {
			problems = append(problems, fmt.Errorf("nodeclaim %s: %w", claims[i].Name, err))
		}
	}
	problems = append(problems, k.repair(ctx, w, pools, claims))
	more := k.provision(ctx, w, pools, claims, &problems)
	for i := range pools {
		problems = append(problems, k.static(ctx, w, &pools[i], claims))
	}
	if !more && !w.now.Before(k.disrupted.Add(k.Clock.Wall(disruptEvery))) {
		did, err := k.disrupt(ctx, w, pools, claims)
		if problems = append(problems, err); !did {
			k.disrupted = w.now
		}
	}
	for i := range pools {
		problems = append(problems, k.tellPool(ctx, w, &pools[i], claims))
	}
	return errors.Join(problems...)
}

// makeNodePools gives each Pool with launch a NodePool of its name, once, where none has it for its class. Who deletes it has none.
func (k *karpenter) makeNodePools(ctx context.Context, w *world, have []nodePool) error {
	for i := range w.pools {
		p := &w.pools[i]
		if k.made[p.UID] {
			continue
		}
		if slices.ContainsFunc(have, func(n nodePool) bool { return n.Name == p.Name || ofClass(n.Spec.Template.Spec.NodeClassRef, p.Name) }) {
			k.made[p.UID] = true
			continue
		}
		if _, _, err := k.create(ctx, nodePoolResource, "", nodePoolFor(p)); err != nil {
			return fmt.Errorf("nodepool %s: %w", p.Name, err)
		}
		k.made[p.UID] = true
	}
	return nil
}

func ofClass(ref classRef, pool string) bool {
	return ref.Group == v1alpha1.GroupVersion.Group && ref.Kind == "Pool" && ref.Name == pool
}

// nodePoolFor is a NodePool that makes of the Pool what its launch says.
func nodePoolFor(p *v1alpha1.Pool) *nodePool {
	l := p.Spec.Launch
	out := &nodePool{TypeMeta: metav1.TypeMeta{APIVersion: karpenterVersion.String(), Kind: "NodePool"}}
	out.Name = p.Name
	s := &out.Spec.Template.Spec
	s.NodeClassRef = classRef{Group: v1alpha1.GroupVersion.Group, Kind: "Pool", Name: p.Name}
	var from []string
	for _, f := range l.From {
		from = append(from, string(f))
	}
	s.Requirements = []corev1.NodeSelectorRequirement{{Key: capacityTypeLabel, Operator: corev1.NodeSelectorOpIn, Values: from}}
	if len(l.Zones) > 0 {
		s.Requirements = append(s.Requirements, corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: l.Zones})
	}
	s.ExpireAfter = "720h"
	out.Spec.Disruption = disruption{ConsolidationPolicy: "WhenEmpty", ConsolidateAfter: "Never", Budgets: []budget{{Nodes: "10%"}}}
	if l.Consolidation != v1alpha1.ConsolidateNever && l.ConsolidateAfter != nil {
		out.Spec.Disruption.ConsolidateAfter = l.ConsolidateAfter.Duration.Truncate(time.Second).String()
	}
	if l.Max != nil {
		out.Spec.Limits = corev1.ResourceList{"nodes": *resource.NewQuantity(int64(*l.Max), resource.DecimalSI)}
	}
	return out
}

// template is a NodePool that may make nodes now, with what it can ask for.
type template struct {
	pool      *nodePool
	offers    []offer // with the labels and taints that their nodes will have
	remaining corev1.ResourceList
	all       bool // there were more offers, which were refused a moment ago
}

// templates are the NodePools that make nodes for pods, by weight. Static ones have their number of nodes and make none for pods
// (pkg/controllers/provisioning/provisioner.go, NewScheduler).
func (k *karpenter) templates(w *world, pools []nodePool, claims []nodeClaim) (out []*template) {
	for i := range pools {
		p := &pools[i]
		if p.DeletionTimestamp != nil || p.Spec.Replicas != nil {
			continue
		}
		class := w.pool(p.Spec.Template.Spec.NodeClassRef.Name)
		if class == nil || !ofClass(p.Spec.Template.Spec.NodeClassRef, class.Name) {
			continue
		}
		t := &template{pool: p}
		for _, o := range k.offersOf(w, class, p) {
			if w.now.Before(k.unavailable[o.key()]) {
				t.all = true
				continue
			}
			t.offers = append(t.offers, o)
		}
		if len(p.Spec.Limits) > 0 {
			t.remaining = p.Spec.Limits.DeepCopy()
			spend(t.remaining, usedBy(p.Name, claims))
		}
		out = append(out, t)
	}
	return out
}

// offersOf are the offers of the class that the NodePool's requirements allow: reserved ones before spot, on demand last
// (aws/karpenter-provider-aws: pkg/providers/instance/instance.go, getCapacityType).
func (k *karpenter) offersOf(w *world, class *v1alpha1.Pool, p *nodePool) (out []offer) {
	for _, o := range k.offers(w, class) {
		o.node = o.node.DeepCopy()
		s := &p.Spec.Template
		o.node.Labels[nodePoolLabel], o.node.Labels[capacityTypeLabel] = p.Name, string(o.from)
		for _, r := range s.Spec.Requirements { // of labels that only the NodePool knows a node has the first value
			if _, known := o.node.Labels[r.Key]; !known && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 {
				o.node.Labels[r.Key] = r.Values[0]
			}
		}
		for key, value := range s.Metadata.Labels {
			o.node.Labels[key] = value
		}
		o.node.Spec.Taints = mergeTaints(o.node.Spec.Taints, s.Spec.Taints)
		if meets(s.Spec.Requirements, o.node.Labels) {
			subtract(o.node.Status.Allocatable, overhead(w.daemons, o.node))
			out = append(out, o)
		}
	}
	rank := map[v1alpha1.CapacityType]int{v1alpha1.CapacityReserved: 0, v1alpha1.CapacitySpot: 1, v1alpha1.CapacityOnDemand: 2}
	slices.SortStableFunc(out, func(a, b offer) int { return cmp.Compare(rank[a.from], rank[b.from]) })
	return out
}

// usedBy is what the nodes of a NodePool have, and how many there are.
func usedBy(pool string, claims []nodeClaim) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := range claims {
		if c := &claims[i]; c.Labels[nodePoolLabel] == pool {
			add(out, c.Status.Capacity)
			add(out, corev1.ResourceList{"nodes": *resource.NewQuantity(1, resource.DecimalSI)})
		}
	}
	return out
}

// mergeTaints adds those that are not there by key and effect.
func mergeTaints(have, more []corev1.Taint) []corev1.Taint {
	have = slices.Clone(have)
	for _, t := range more {
		if !slices.ContainsFunc(have, func(o corev1.Taint) bool { return o.MatchTaint(&t) }) {
			have = append(have, t)
		}
	}
	return have
}

// tellPool keeps the status of a NodePool (pkg/controllers/nodepool/readiness, validation and counter).
func (k *karpenter) tellPool(ctx context.Context, w *world, p *nodePool, claims []nodeClaim) error {
	next := p.Status
	next.Conditions = slices.Clone(p.Status.Conditions)
	used := usedBy(p.Name, claims)
	count := used["nodes"]
	next.Resources, next.Nodes = used, count.Value()
	s := conditions{list: &next.Conditions, generation: p.Generation, now: w.now, of: []string{condValid, condClassReady}}
	s.set(condValid, metav1.ConditionTrue, condValid, "")
	if ref := p.Spec.Template.Spec.NodeClassRef; w.pool(ref.Name) != nil && ofClass(ref, ref.Name) {
		s.set(condClassReady, metav1.ConditionTrue, condClassReady, "")
	} else {
		s.set(condClassReady, metav1.ConditionFalse, "NodeClassNotFound", "NodeClass not found on cluster")
	}
	k.checkHealth(w, p, &next, s)
	if equality.Semantic.DeepEqual(next, p.Status) {
		return nil
	}
	return k.patch(ctx, nodePoolResource, "", p.Name, "status", map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": next})
}

// healthOf is how many of the last claims of a NodePool count (pkg/state/nodepoolhealth/tracker.go, BufferSize), and badOf how many of them
// that became no node make it unhealthy (the same, ThresholdFalse).
const (
	healthOf = 4
	badOf    = 2
)

func unhealthy(last []bool) bool {
	bad := 0
	for _, ok := range last {
		if !ok {
			bad++
		}
	}
	return bad >= badOf
}

// checkHealth begins anew where the NodePool or its class changed, and takes over what a controller before this one said
// (pkg/controllers/nodepool/registrationhealth/controller.go).
func (k *karpenter) checkHealth(w *world, p *nodePool, next *nodePoolStatus, s conditions) {
	class := w.pool(p.Spec.Template.Spec.NodeClassRef.Name)
	if class == nil {
		return
	}
	o := s.get(condHealthy)
	if len(k.health[p.UID]) == 0 && o != nil && o.Status == metav1.ConditionTrue {
		k.health[p.UID] = []bool{true}
	}
	if len(k.health[p.UID]) == 0 && o != nil && o.Status == metav1.ConditionFalse {
		k.health[p.UID] = make([]bool, badOf)
	}
	if o == nil || next.NodeClassObservedGeneration != class.Generation || o.ObservedGeneration != p.Generation {
		s.set(condHealthy, metav1.ConditionUnknown, "AwaitingReconciliation", "object is awaiting reconciliation")
		delete(k.health, p.UID)
	}
	next.NodeClassObservedGeneration = class.Generation
}

// tellHealth counts a claim that became a node, or did not, and has the NodePool say what follows
// (pkg/controllers/nodeclaim/lifecycle/registration.go and liveness.go, updateNodePoolRegistrationHealth).
func (k *karpenter) tellHealth(ctx context.Context, w *world, c *nodeClaim, pools []nodePool, ok bool, reason, message string) error {
	p := poolOf(pools, c)
	if p == nil || !slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.UID }) {
		return nil
	}
	last := append(slices.Clone(k.health[p.UID]), ok)
	last = last[max(0, len(last)-healthOf):]
	is := metav1.ConditionTrue
	if !ok {
		is = metav1.ConditionFalse
	}
	s := conditions{list: &p.Status.Conditions, generation: p.Generation, now: w.now, of: []string{condValid, condClassReady}}
	if o := s.get(condHealthy); unhealthy(last) == !ok && (o == nil || o.Status != is) {
		s.set(condHealthy, is, reason, message)
		if err := k.patch(ctx, nodePoolResource, "", p.Name, "status", map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": p.Status}); err != nil {
			return err
		}
	}
	k.health[p.UID] = last
	return nil
}
