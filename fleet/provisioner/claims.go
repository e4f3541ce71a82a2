package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// planned is a NodeClaim that is about to be made.
type planned struct {
	of     *template
	offers []offer // that are still possible
	free   corev1.ResourceList
	pods   []*corev1.Pod
}

// errNoOffer and the others are why a NodePool has no node for a pod (pkg/controllers/provisioning/scheduling/nodeclaim.go).
var errNoOffer = errors.New("no instance type which met the scheduling requirements and had enough resources, had a required offering")

// provision makes NodeClaims for pods that wait, and says to each pod where it should be. true: there are claims now that the list does
// not have (pkg/controllers/provisioning/provisioner.go, scheduling/scheduler.go).
func (k *karpenter) provision(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim, problems *[]error) (more bool) {
	waiting := pending(w, k.Clock.Wall(batchIdle), k.Clock.Wall(batchMax))
	for i := range claims { // and those whose node leaves, for which room is kept until they come (provisioner.go, Schedule)
		if claims[i].DeletionTimestamp != nil {
			waiting = append(waiting, moving(w, claims[i].Name)...)
		}
	}
	sortPods(waiting)
	if len(waiting) == 0 {
		return false
	}
	bins := k.bins(w, claims)
	templates := k.templates(w, pools, claims)
	var plans []*planned
pods:
	for _, p := range waiting {
		if len(p.Spec.ResourceClaims) > 0 { // IgnoreDRARequests is on by default
			k.failed(ctx, w, p, errors.New("pod has Dynamic Resource Allocation requests that are not yet supported by Karpenter"))
			continue
		}
		for _, b := range bins {
			if b.admits(p, ephemeral) {
				b.put(p)
				k.nominate(ctx, w, p, b, claims)
				continue pods
			}
		}
		for _, n := range plans {
			if n.add(p) == nil {
				continue pods
			}
		}
		n, err := open(templates, p)
		if err != nil {
			k.failed(ctx, w, p, err)
			continue
		}
		plans = append(plans, n)
	}
	for _, n := range plans {
		name, err := k.makeClaim(ctx, n)
		if err != nil {
			*problems = append(*problems, err)
			continue
		}
		for _, p := range n.pods {
			k.tell(ctx, w.now, podRef(p), "karpenter", corev1.EventTypeNormal, "Nominated", "Pod should schedule on: nodeclaim/"+name, eventTTL)
		}
	}
	return len(plans) > 0
}

// pending are the pods that wait for nodes, the largest first, once no more have come for a moment
// (scheduling/queue.go, byCPUAndMemoryDescending; batcher.go).
func pending(w *world, idle, most time.Duration) (out []*corev1.Pod) {
	var first, last time.Time
	for _, p := range w.pods {
		if !asksForNodes(p) {
			continue
		}
		out = append(out, p)
		at := unschedulable(p).LastTransitionTime.Time
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if w.now.Before(last.Add(idle)) && w.now.Before(first.Add(most)) {
		return nil
	}
	sortPods(out)
	return out
}

func sortPods(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		x, y := requests(a), requests(b)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			l, r := x[name], y[name]
			if c := r.Cmp(l); c != 0 {
				return c
			}
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
}

// bins are all nodes, and those that claims will become.
func (k *karpenter) bins(w *world, claims []nodeClaim) (out []*bin) {
	leaving := make(map[string]bool)
	for i := range claims {
		leaving[claims[i].Name] = claims[i].DeletionTimestamp != nil
	}
	for _, n := range w.nodes {
		if n.DeletionTimestamp != nil || leaving[n.Name] {
			continue
		}
		// Until the node is initialized, it counts with what it should have (pkg/controllers/state/statenode.go, Allocatable and Taints).
		if i := slices.IndexFunc(claims, func(c nodeClaim) bool { return c.Name == n.Name }); i >= 0 && n.Labels[initializedLabel] != "true" {
			n = n.DeepCopy()
			for name, q := range claims[i].Status.Allocatable {
				if have := n.Status.Allocatable[name]; have.IsZero() {
					n.Status.Allocatable[name] = q
				}
			}
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
				return slices.ContainsFunc(claims[i].Spec.StartupTaints, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
			})
		}
		out = append(out, newBin(n, w.on[n.Name]))
	}
	for i := range claims {
		if c := &claims[i]; c.DeletionTimestamp == nil && w.node(c.Name) == nil {
			if n := k.inFlight(w, c); n != nil {
				out = append(out, newBin(n, nil))
			}
		}
	}
	return out
}

// inFlight is the node that a claim will become; nil where its class is gone.
func (k *karpenter) inFlight(w *world, c *nodeClaim) *corev1.Node {
	class := w.pool(c.Spec.NodeClassRef.Name)
	if class == nil {
		return nil
	}
	for _, o := range k.offers(w, class) {
		if m := w.machine(c.Name); m != nil && (m.Spec.Zone != o.zone || m.Spec.CapacityType != o.from) {
			continue
		}
		n := o.node.DeepCopy()
		n.Name = c.Name
		n.Labels[nodePoolLabel], n.Labels[capacityTypeLabel] = c.Labels[nodePoolLabel], string(o.from)
		maps.Copy(n.Labels, c.Labels)
		n.Spec.Taints = mergeTaints(n.Spec.Taints, c.Spec.Taints)
		subtract(n.Status.Allocatable, overhead(w.daemons, n))
		return n
	}
	return k.launchedNode(w, c, class)
}

// launchedNode is for a claim whose way to pay has nothing left but what the claim itself has.
func (k *karpenter) launchedNode(w *world, c *nodeClaim, class *v1alpha1.Pool) *corev1.Node {
	m := w.machine(c.Name)
	if m == nil {
		return nil
	}
	n, err := k.sample(class, m.Spec.Zone, m.Spec.CapacityType)
	if err != nil {
		return nil
	}
	n = n.DeepCopy()
	n.Name = c.Name
	maps.Copy(n.Labels, c.Labels)
	n.Labels[capacityTypeLabel] = string(m.Spec.CapacityType)
	n.Spec.Taints = mergeTaints(n.Spec.Taints, c.Spec.Taints)
	subtract(n.Status.Allocatable, overhead(w.daemons, n))
	return n
}

// open begins a claim of the first NodePool that has a node for the pod; the error is that of all of them.
func open(templates []*template, p *corev1.Pod) (*planned, error) {
	var problems []error
	for _, t := range templates {
		n := &planned{of: t, offers: t.offers}
		err := n.begin(p)
		if err == nil {
			return n, nil
		}
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		return nil, errors.New("nodepool requirements filtered out all available instance types")
	}
	texts := make([]string, len(problems))
	for i, err := range problems {
		texts[i] = err.Error()
	}
	return nil, errors.New(strings.Join(texts, "; "))
}

// begin has the pod be the first of the claim.
func (n *planned) begin(p *corev1.Pod) error {
	t := n.of
	if len(t.offers) == 0 && t.all {
		return withNeeds(errNoOffer, p)
	}
	if len(t.offers) == 0 {
		return errors.New("nodepool requirements filtered out all available instance types")
	}
	sample := t.offers[0].node
	each := sample.Status.Capacity.DeepCopy()
	each["nodes"] = *oneNode
	for name, have := range t.remaining {
		if need := each[name]; have.Cmp(need) < 0 {
			return fmt.Errorf("all available instance types exceed limits for nodepool (NodePool=%s)", t.pool.Name)
		}
	}
	n.free = sample.Status.Allocatable.DeepCopy()
	if err := n.add(p); err != nil {
		return err
	}
	spend(t.remaining, each)
	n.reserve()
	return nil
}

// reserve takes a machine of a reservation where there is one: such a claim is for reserved ones alone (scheduling/reservationmanager.go).
func (n *planned) reserve() {
	for i := range n.offers {
		if o := &n.offers[i]; o.from == v1alpha1.CapacityReserved {
			n.offers = slices.DeleteFunc(slices.Clone(n.offers), func(x offer) bool { return x.reservation != o.reservation })
			n.of.take(o.reservation)
			return
		}
	}
}

func (t *template) take(reservation string) {
	var left []offer
	for _, o := range t.offers {
		if o.reservation == reservation {
			o.left--
		}
		if o.left > 0 {
			left = append(left, o)
		}
	}
	t.offers = left
}

// add puts one more pod on the claim's node to be.
func (n *planned) add(p *corev1.Pod) error {
	if t := untolerated(p, n.offers[0].node.Spec.Taints, ephemeral); t != nil {
		return fmt.Errorf("did not tolerate taint (taint=%s)", t.ToString())
	}
	var fit []offer
	for _, o := range n.offers {
		if selects(p, o.node) {
			fit = append(fit, o)
		}
	}
	if len(fit) == 0 {
		return incompatible(p, n.offers)
	}
	need := requests(p)
	if missing(n.free, need) != "" {
		return withNeeds(errors.New("no instance type has enough resources"), p)
	}
	n.offers, n.pods = fit, append(n.pods, p)
	subtract(n.free, need)
	return nil
}

// incompatible says by which label the pod does not match (pkg/scheduling/requirements.go).
func incompatible(p *corev1.Pod, offers []offer) error {
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		var have []string
		for _, o := range offers {
			if value, ok := o.node.Labels[key]; ok && !slices.Contains(have, value) {
				have = append(have, value)
			}
		}
		want := p.Spec.NodeSelector[key]
		if len(have) == 0 {
			return fmt.Errorf("incompatible requirements, label %q does not have known values", key)
		}
		if !slices.Contains(have, want) {
			return fmt.Errorf("incompatible requirements, key %s, %s In [%s] not in %s In [%s]", key, key, want, key, strings.Join(have, " "))
		}
	}
	return withNeeds(errors.New("no instance type met all requirements"), p)
}

func withNeeds(err error, p *corev1.Pod) error {
	text, bad := json.Marshal(requests(p))
	if bad != nil {
		return err
	}
	return fmt.Errorf("%w, requirements=%s, resources=%s", err, labelsOf(p), text)
}

func labelsOf(p *corev1.Pod) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		parts = append(parts, fmt.Sprintf("%s In [%s]", key, p.Spec.NodeSelector[key]))
	}
	return strings.Join(parts, ", ")
}

func (k *karpenter) failed(ctx context.Context, w *world, p *corev1.Pod, err error) {
	k.tell(ctx, w.now, podRef(p), "karpenter", corev1.EventTypeWarning, "FailedScheduling", "Failed to schedule pod, "+err.Error(), failedTTL)
}

// keep has the node not be disrupted while pods are on their way to it.
func (k *karpenter) keep(w *world, node string) {
	k.nominated[node] = w.now.Add(k.Clock.Wall(nominatedTTL))
}

// nominate says to the pod that a node which exists or is on its way is for it.
func (k *karpenter) nominate(ctx context.Context, w *world, p *corev1.Pod, b *bin, claims []nodeClaim) {
	k.keep(w, b.node.Name)
	var on []string
	if slices.ContainsFunc(claims, func(c nodeClaim) bool { return c.Name == b.node.Name }) {
		on = append(on, "nodeclaim/"+b.node.Name)
	}
	if w.node(b.node.Name) != nil {
		on = append(on, "node/"+b.node.Name)
	}
	k.tell(ctx, w.now, podRef(p), "karpenter", corev1.EventTypeNormal, "Nominated", "Pod should schedule on: "+strings.Join(on, ", "), eventTTL)
}

// makeClaim writes the NodeClaim (scheduling/nodeclaimtemplate.go, ToNodeClaim).
func (k *karpenter) makeClaim(ctx context.Context, n *planned) (string, error) {
	p := n.of.pool
	c := &nodeClaim{TypeMeta: metav1.TypeMeta{APIVersion: karpenterVersion.String(), Kind: "NodeClaim"}}
	c.GenerateName = p.Name + "-"
	c.Labels, c.Annotations = maps.Clone(p.Spec.Template.Metadata.Labels), maps.Clone(p.Spec.Template.Metadata.Annotations)
	if c.Labels == nil {
		c.Labels = make(map[string]string)
	}
	c.Labels[nodePoolLabel] = p.Name
	for _, r := range p.Spec.Template.Spec.Requirements { // labels that only the NodePool knows (resolveCustomLabelsFromRequirements)
		if _, set := c.Labels[r.Key]; !set && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 && !strings.Contains(r.Key, "kubernetes.io/") && !strings.Contains(r.Key, "karpenter.") {
			c.Labels[r.Key] = r.Values[0]
		}
	}
	c.Annotations = hashed(p, c.Annotations)
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: karpenterVersion.String(), Kind: "NodePool", Name: p.Name, UID: p.UID, BlockOwnerDeletion: new(true)}}
	c.Spec = p.Spec.Template.Spec
	c.Spec.Requirements = n.requirements()
	c.Spec.Resources.Requests = corev1.ResourceList{}
	for _, pod := range n.pods {
		add(c.Spec.Resources.Requests, requests(pod))
	}
	got, _, err := k.create(ctx, nodeClaimResource, "", c)
	if err != nil {
		return "", fmt.Errorf("nodeclaim of %s: %w", p.Name, err)
	}
	k.Log.Info("created nodeclaim", "nodeclaim", got.GetName(), "pods", len(n.pods))
	return got.GetName(), nil
}

// requirements are those of the NodePool, narrowed to the offers that are left.
func (n *planned) requirements() []corev1.NodeSelectorRequirement {
	values := func(key string) (out []string) {
		for _, o := range n.offers {
			if v := o.node.Labels[key]; v != "" && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		return out
	}
	narrowed := []string{corev1.LabelInstanceTypeStable, capacityTypeLabel, corev1.LabelTopologyZone}
	var out []corev1.NodeSelectorRequirement
	for _, r := range n.of.pool.Spec.Template.Spec.Requirements {
		if !slices.Contains(narrowed, r.Key) {
			out = append(out, r)
		}
	}
	for _, key := range narrowed {
		if list := values(key); len(list) > 0 {
			out = append(out, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: list})
		}
	}
	return append(out, corev1.NodeSelectorRequirement{Key: nodePoolLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{n.of.pool.Name}})
}
