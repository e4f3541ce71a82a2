package provisioner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// This file is the life of a NodeClaim (pkg/controllers/nodeclaim/lifecycle):
//
//	created --launch--> Launched --the node comes--> Registered --Ready, taints gone, GPUs there--> Initialized
//	   |                   '--not within 15 min--> deleted
//	   |--the provider has none--> event InsufficientCapacityError, deleted
//	   '--any other error------> Launched Unknown, LaunchFailed; deleted after 5 min
//	deleted --> node deleted --> tainted, drained --> machine given back --> finalizers taken away

// reconcile takes the next step of one claim. c is as it was read, and as it will be afterwards.
func (k *karpenter) reconcile(ctx context.Context, w *world, c *nodeClaim, pools []nodePool) error {
	if !ofClass(c.Spec.NodeClassRef, c.Spec.NodeClassRef.Name) {
		return nil // another provider's (pkg/utils/nodeclaim, IsManaged)
	}
	if c.DeletionTimestamp != nil {
		return k.finalize(ctx, w, c)
	}
	if !slices.Contains(c.Finalizers, terminationFinalizer) {
		c.Finalizers = append(c.Finalizers, terminationFinalizer)
		return k.patch(ctx, nodeClaimResource, "", c.Name, "", map[string]any{"metadata": map[string]any{"resourceVersion": c.ResourceVersion, "finalizers": c.Finalizers}})
	}
	if n := nodeOf(w, c); n != nil && n.DeletionTimestamp != nil { // its claim goes with it (pkg/controllers/node/termination/controller.go)
		return k.deleteClaim(ctx, w, c)
	}
	before := *c
	before.Labels, before.Status.Conditions = maps.Clone(c.Labels), slices.Clone(c.Status.Conditions)
	s := k.conditionsOf(w, c)
	s.begin()
	gone, err := k.launch(ctx, w, c, s)
	if gone || err != nil {
		return err
	}
	registered := s.is(condRegistered)
	if err := k.register(ctx, w, c, s); err != nil {
		return err
	}
	if !registered && s.is(condRegistered) {
		if err := k.tellHealth(ctx, w, c, pools, true, condHealthy, ""); err != nil {
			return err
		}
	}
	if err := k.initialize(ctx, w, c, s); err != nil {
		return err
	}
	k.drift(c, s, pools)
	k.consolidatable(w, c, s, pools)
	if !equality.Semantic.DeepEqual(before.Labels, c.Labels) {
		if err := k.patch(ctx, nodeClaimResource, "", c.Name, "", map[string]any{"metadata": map[string]any{"uid": c.UID, "labels": c.Labels}}); err != nil {
			return err
		}
	}
	if !equality.Semantic.DeepEqual(before.Status, c.Status) {
		if err := k.tellClaim(ctx, c); err != nil {
			return err
		}
	}
	if why := k.overdue(w, c, s); why != "" {
		k.Log.Info("delete", "nodeclaim", c.Name, "why", why)
		if err := k.failHealth(ctx, w, c, s, pools, why); err != nil {
			return err
		}
		return k.deleteClaim(ctx, w, c)
	}
	return nil
}

func (k *karpenter) conditionsOf(w *world, c *nodeClaim) conditions {
	return conditions{list: &c.Status.Conditions, generation: c.Generation, now: w.now, of: []string{condLaunched, condRegistered, condInitialized}}
}

func (k *karpenter) tellClaim(ctx context.Context, c *nodeClaim) error {
	return k.patch(ctx, nodeClaimResource, "", c.Name, "status", map[string]any{"metadata": map[string]any{"uid": c.UID}, "status": c.Status})
}

// deleteClaim has the API server mark it. c is as if it were marked.
func (k *karpenter) deleteClaim(ctx context.Context, w *world, c *nodeClaim) error {
	c.DeletionTimestamp = &metav1.Time{Time: w.now}
	return k.delete(ctx, nodeClaimResource, "", c.Name, c.UID)
}

// insufficient are the errors that a provider reports as a lack of capacity: the offering is not tried again for a while
// (aws/karpenter-provider-aws: pkg/errors/errors.go, unfulfillableCapacityErrorCodes; those of other clouds by their meaning).
func insufficient(code string) bool {
	switch v1alpha1.LaunchError(code) {
	case v1alpha1.ErrorInsufficientInstanceCapacity, v1alpha1.ErrorReservationCapacityExceeded, v1alpha1.ErrorVcpuLimitExceeded,
		v1alpha1.ErrorZoneResourcePoolExhausted, v1alpha1.ErrorQuotaExceeded, v1alpha1.ErrorAllocationFailed:
		return true
	}
	return false
}

// launch asks the fleet for the claim's machine, and takes its answer (lifecycle/launch.go). A call of the provider tries all zones of one
// way to pay; true: it had none, and the claim is deleted.
func (k *karpenter) launch(ctx context.Context, w *world, c *nodeClaim, s conditions) (gone bool, err error) {
	if s.is(condLaunched) {
		return false, nil
	}
	m := w.machine(c.Name)
	switch {
	case m == nil && !asked(s):
		return k.tryNext(ctx, w, c, "", "no offering is available")
	case m == nil || m.Status.Phase == "":
		return false, nil // it does not answer
	case m.Status.Phase == v1alpha1.MachineFailed && insufficient(m.Status.Error):
		o := offer{class: &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: m.Spec.Pool}}, zone: m.Spec.Zone, from: m.Spec.CapacityType}
		k.unavailable[o.key()] = w.now.Add(k.Clock.Wall(unavailableTTL))
		from := m.Spec.CapacityType
		if err := k.giveBack(ctx, w, c.Name); err != nil {
			return false, err
		}
		return k.tryNext(ctx, w, c, from, m.Status.Error+": "+m.Status.Message)
	case m.Status.Phase == v1alpha1.MachineFailed:
		s.set(condLaunched, metav1.ConditionUnknown, "LaunchFailed", shorten("creating instance, "+m.Status.Error+": "+m.Status.Message))
		return false, k.giveBack(ctx, w, c.Name) // and asked again at the next look
	}
	return false, k.launched(w, c, m, s)
}

// asked says that the provider was called and gave an error that may pass: it is called again with a growing wait, which is not played.
func asked(s conditions) bool {
	o := s.get(condLaunched)
	return o != nil && o.Reason == "LaunchFailed" && s.now.Sub(o.LastTransitionTime.Time) < time.Second
}

func shorten(text string) string {
	if len(text) < 300 {
		return text
	}
	return strings.ToValidUTF8(text[:300], "") + "..."
}

// tryNext asks for the claim's next offer; of the same way to pay where one was refused.
func (k *karpenter) tryNext(ctx context.Context, w *world, c *nodeClaim, from v1alpha1.CapacityType, why string) (gone bool, err error) {
	class := w.pool(c.Spec.NodeClassRef.Name)
	if class == nil { // NodeClassNotReady
		return true, k.deleteClaim(ctx, w, c)
	}
	like := &nodePool{}
	like.Name = c.Labels[nodePoolLabel]
	like.Spec.Template.Spec = c.Spec
	like.Spec.Template.Metadata.Labels = c.Labels
	for _, o := range k.offersOf(w, class, like) {
		if (from == "" || o.from == from) && !w.now.Before(k.unavailable[o.key()]) {
			return false, k.ask(ctx, w, c.Name, &o, unregisteredTaint+":"+string(corev1.TaintEffectNoExecute), "")
		}
	}
	k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeWarning, "InsufficientCapacityError",
		fmt.Sprintf("NodeClaim %s event: %s", c.Name, shorten("creating nodeclaim, insufficient capacity, with fleet error(s), "+why)), eventTTL)
	return true, k.deleteClaim(ctx, w, c)
}

func claimRef(c *nodeClaim) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpenterVersion.String(), Kind: "NodeClaim", Name: c.Name, UID: c.UID}
}

// launched takes over what the provider says of the machine.
func (k *karpenter) launched(w *world, c *nodeClaim, m *v1alpha1.Machine, s conditions) error {
	class := w.pool(m.Spec.Pool)
	if class == nil {
		return nil
	}
	n, err := k.sample(class, m.Spec.Zone, m.Spec.CapacityType)
	if err != nil {
		return err
	}
	if c.Labels == nil {
		c.Labels = make(map[string]string)
	}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelArchStable, corev1.LabelOSStable} {
		if value := n.Labels[key]; value != "" && c.Labels[key] == "" {
			c.Labels[key] = value
		}
	}
	c.Labels[capacityTypeLabel] = string(m.Spec.CapacityType)
	for i := range w.reservations {
		if r := &w.reservations[i]; r.Name == m.Spec.Reservation && r.Spec.Provider == "aws" && r.Spec.ID != "" {
			c.Labels[reservationLabel] = r.Spec.ID
		}
	}
	c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = providerID(c.Name), n.Status.Capacity, n.Status.Allocatable
	s.set(condLaunched, metav1.ConditionTrue, condLaunched, "")
	return nil
}

// providerID is how the fleet's nodes name their machine.
func providerID(machine string) string { return "berth://" + machine }

// nodeOf is the claim's node; nil: none has come.
func nodeOf(w *world, c *nodeClaim) *corev1.Node {
	if n := w.node(c.Name); n != nil && c.Status.ProviderID != "" && n.Spec.ProviderID == c.Status.ProviderID {
		return n
	}
	return nil
}

// register brings labels, taints and the finalizer to the node that came, and lifts the taint that kept pods away until then
// (lifecycle/registration.go).
func (k *karpenter) register(ctx context.Context, w *world, c *nodeClaim, s conditions) error {
	if o := s.get(condRegistered); o.Status != metav1.ConditionUnknown || !s.is(condLaunched) {
		return nil
	}
	n := nodeOf(w, c)
	if n == nil || n.DeletionTimestamp != nil {
		s.set(condRegistered, metav1.ConditionUnknown, "NodeNotFound", "Node not registered with cluster")
		return nil
	}
	n = n.DeepCopy()
	if !slices.Contains(n.Finalizers, terminationFinalizer) {
		n.Finalizers = append(n.Finalizers, terminationFinalizer)
	}
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: karpenterVersion.String(), Kind: "NodeClaim", Name: c.Name, UID: c.UID, BlockOwnerDeletion: new(true)}}
	n.Spec.Taints = mergeTaints(mergeTaints(n.Spec.Taints, c.Spec.Taints), c.Spec.StartupTaints)
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == unregisteredTaint })
	for key, value := range c.Labels {
		n.Labels[key] = value
	}
	n.Labels[registeredLabel] = "true"
	if n.Annotations == nil {
		n.Annotations = make(map[string]string)
	}
	maps.Copy(n.Annotations, c.Annotations)
	if _, err := k.core.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		return unlessGone(err) // at the next look
	}
	c.Status.NodeName = n.Name
	s.set(condRegistered, metav1.ConditionTrue, condRegistered, "")
	return nil
}

// ephemeral are taints that go by themselves while a node comes up (pkg/scheduling/taints.go, KnownEphemeralTaints).
func ephemeral(t *corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable || t.Key == "node.cloudprovider.kubernetes.io/uninitialized" || t.Key == unregisteredTaint
}

// initialize waits for a node that takes pods and has what they ask for (lifecycle/initialization.go).
func (k *karpenter) initialize(ctx context.Context, w *world, c *nodeClaim, s conditions) error {
	if o := s.get(condInitialized); o.Status != metav1.ConditionUnknown || !s.is(condRegistered) {
		return nil
	}
	not := func(reason, format string, args ...any) error {
		s.set(condInitialized, metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...))
		return nil
	}
	n := nodeOf(w, c)
	if n == nil {
		return not("NodeNotFound", "Node not registered with cluster")
	}
	if !slices.ContainsFunc(n.Status.Conditions, func(o corev1.NodeCondition) bool {
		return o.Type == corev1.NodeReady && o.Status == corev1.ConditionTrue
	}) {
		return not("NodeNotReady", "Node status is NotReady")
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if slices.ContainsFunc(c.Spec.StartupTaints, func(o corev1.Taint) bool { return o.MatchTaint(t) }) {
			return not("StartupTaintsExist", "StartupTaint %q still exists", t.ToString())
		}
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; ephemeral(t) {
			return not("KnownEphemeralTaintsExist", "KnownEphemeralTaint %q still exists", t.ToString())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Resources.Requests)) {
		need, have := c.Spec.Resources.Requests[name], n.Status.Allocatable[name]
		if !need.IsZero() && have.IsZero() {
			return not("ResourceNotRegistered", "Resource %q was requested but not registered", name)
		}
	}
	n = n.DeepCopy()
	n.Labels[initializedLabel] = "true"
	if _, err := k.core.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		return unlessGone(err)
	}
	s.set(condInitialized, metav1.ConditionTrue, condInitialized, "")
	return nil
}

// overdue is why the claim is to go by itself: it did not launch or register in time, or has expired
// (lifecycle/liveness.go, pkg/controllers/nodeclaim/expiration); "": it is not.
func (k *karpenter) overdue(w *world, c *nodeClaim, s conditions) string {
	late := func(name string, limit time.Duration) bool {
		o := s.get(name)
		return o.Status != metav1.ConditionTrue && !w.now.Before(o.LastTransitionTime.Add(k.Clock.Wall(limit)))
	}
	if after, ok := duration(c.Spec.ExpireAfter); ok && !w.now.Before(c.CreationTimestamp.Add(k.Clock.Wall(after))) {
		return "expired"
	}
	switch {
	case s.is(condRegistered):
		return ""
	case late(condLaunched, launchTTL):
		return "launch_timeout"
	case late(condRegistered, registerTTL):
		return "registration_timeout"
	}
	return ""
}

// failHealth counts a claim that did not come.
func (k *karpenter) failHealth(ctx context.Context, w *world, c *nodeClaim, s conditions, pools []nodePool, why string) error {
	if why == "expired" {
		return nil
	}
	if o := s.get(condLaunched); o.Status != metav1.ConditionTrue {
		return k.tellHealth(ctx, w, c, pools, false, o.Reason, o.Message)
	}
	return k.tellHealth(ctx, w, c, pools, false, "RegistrationFailed", "Failed to register node")
}

// duration reads what Karpenter calls a nillable duration; false: Never, or nothing.
func duration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// meets says whether a node with the labels is one that the requirements allow.
func meets(list []corev1.NodeSelectorRequirement, labels map[string]string) bool {
	for _, r := range list {
		value, has := labels[r.Key]
		ok := false
		switch r.Operator {
		case corev1.NodeSelectorOpIn:
			ok = has && slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpNotIn:
			ok = !has || !slices.Contains(r.Values, value)
		case corev1.NodeSelectorOpExists:
			ok = has
		case corev1.NodeSelectorOpDoesNotExist:
			ok = !has
		default:
			ok = has && compares(string(r.Operator), value, r.Values)
		}
		if !ok {
			return false
		}
	}
	return true
}

// compares is for Gt, Gte, Lt and Lte, which compare whole numbers.
func compares(operator, value string, than []string) bool {
	if len(than) != 1 {
		return false
	}
	a, err := strconv.ParseInt(value, 10, 64)
	b, bad := strconv.ParseInt(than[0], 10, 64)
	if err != nil || bad != nil {
		return false
	}
	switch operator {
	case "Gt":
		return a > b
	case "Gte":
		return a >= b
	case "Lt":
		return a < b
	case "Lte":
		return a <= b
	}
	return false
}
