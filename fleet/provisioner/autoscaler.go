package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Times of the cluster autoscaler, by its flags' defaults (config/flags/flags.go). How long a node is unneeded before it goes is its
// pool's consolidateAfter.
const (
	provisionTime   = 15 * time.Minute // max-node-provision-time
	firstBackoff    = 5 * time.Minute  // initial-node-group-backoff-duration
	longestBackoff  = 30 * time.Minute // max-node-group-backoff-duration
	autoscalerQuiet = 5 * time.Minute  // how long an event of a pod is not written again; the real one counts it up instead
)

// Taints of nodes that leave (utils/taints/taints.go), and where the status is (clusterstate/utils/status.go).
const (
	toBeDeleted       = "ToBeDeletedByClusterAutoscaler"
	deletionCandidate = "DeletionCandidateOfClusterAutoscaler"
	statusName        = "cluster-autoscaler-status"
	statusNamespace   = "kube-system"
)

// autoscaler plays the cluster autoscaler. Each Pool with launch is a node group for each zone and way to pay.
type autoscaler struct {
	*api
	backoff  map[string]backoff       // by group
	unneeded map[string]time.Time     // nodes on which little or nothing runs, since when
	drained  map[string]bool          // nodes that are to be deleted and had work
	retry    map[string]time.Duration // of ProvisioningRequests
	status   string                   // as last written
	cleaned  bool                     // see cleanUp
}

type backoff struct {
	until         time.Time
	last          time.Duration
	code, message string
}

func newAutoscaler(a *api) *autoscaler {
	return &autoscaler{api: a, backoff: make(map[string]backoff), unneeded: make(map[string]time.Time), drained: make(map[string]bool), retry: make(map[string]time.Duration)}
}

// group is a node group as it is now.
type group struct {
	offer
	name     string
	size     int // machines that were asked for
	max      int
	upcoming []*v1alpha1.Machine // that are no nodes yet
}

func groupName(pool, zone string, from v1alpha1.CapacityType) string {
	return strings.Trim(pool+"-"+zone+"-"+string(from), "-")
}

// groupOf is the name of the machine's group.
func groupOf(m *v1alpha1.Machine) string {
	return groupName(m.Spec.Pool, m.Spec.Zone, m.Spec.CapacityType)
}

// groups are those of all pools, in the order in which they are tried.
func (s *autoscaler) groups(w *world) (out []*group) {
	for i := range w.pools {
		p := &w.pools[i]
		for _, o := range s.offers(w, p) {
			g := &group{offer: o, name: groupName(p.Name, o.zone, o.from), max: unlimited}
			if p.Spec.Launch.Max != nil {
				g.max = int(*p.Spec.Launch.Max)
			}
			for j := range w.machines {
				m := &w.machines[j]
				if m.Spec.Pool != p.Name || m.Spec.Zone != o.zone || m.Spec.CapacityType != o.from {
					continue
				}
				if g.size++; w.node(m.Name) == nil {
					g.upcoming = append(g.upcoming, m)
				}
			}
			g.max = min(g.max, g.size+o.left)
			out = append(out, g)
		}
	}
	return out
}

// node is one of the group as it will be.
func (g *group) node(w *world, name string) *corev1.Node {
	n := g.offer.node.DeepCopy()
	n.Name = name
	n.Labels[corev1.LabelHostname] = name
	subtract(n.Status.Allocatable, overhead(w.daemons, n))
	return n
}

func (s *autoscaler) look(ctx context.Context, w *world) error {
	if err := s.cleanUp(ctx, w); err != nil {
		return err
	}
	requests, err := list[provisioningRequest](ctx, s.api, requestResource)
	if err != nil {
		return err
	}
	slices.SortFunc(requests, func(a, b provisioningRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	problems := []error{s.settle(ctx, w, requests)}
	bins := s.bins(w)
	problems = append(problems, s.answer(ctx, w, requests, bins))
	problems = append(problems, s.scaleUp(ctx, w, bins))
	problems = append(problems, s.scaleDown(ctx, w, bins))
	return errors.Join(append(problems, s.tellStatus(ctx, w))...)
}

// cleanUp takes away, once, the taints of nodes that whoever came before was about to delete: work may have come for them
// (core/static_autoscaler.go, cleanUpIfRequired).
func (s *autoscaler) cleanUp(ctx context.Context, w *world) error {
	if s.cleaned {
		return nil
	}
	for i, n := range w.nodes {
		if w.machine(n.Name) == nil {
			continue
		}
		next, err := s.untaint(ctx, n, toBeDeleted)
		if err != nil {
			return err
		}
		w.nodes[i] = next
	}
	s.cleaned = true
	return nil
}

// bins are all nodes and those that are on their way (core/static_autoscaler.go, addUpcomingNodesToClusterSnapshot).
func (s *autoscaler) bins(w *world) (out []*bin) {
	like := make(map[string]*group)
	groups := s.groups(w)
	for _, g := range groups {
		like[g.name] = g
	}
	for _, n := range w.nodes {
		if n.DeletionTimestamp != nil || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted }) {
			continue
		}
		if m := w.machine(n.Name); m != nil {
			// One that is not ready counts as it will be, and so does one without its GPUs (processors/customresources/gpu_processor.go).
			if g := like[groupOf(m)]; g != nil && (!readyNode(n) || g.lacksGPUs(n)) {
				out = append(out, newBin(g.node(w, n.Name), nil))
				continue
			}
		}
		out = append(out, newBin(n, w.on[n.Name]))
	}
	for _, g := range groups {
		for _, m := range g.upcoming {
			if m.Status.Phase != v1alpha1.MachineFailed {
				out = append(out, newBin(g.node(w, m.Name), nil))
			}
		}
	}
	return out
}

func readyNode(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return ephemeral(&t) })
}

// lacksGPUs says that the node does not have an extended resource yet that nodes of its group have.
func (g *group) lacksGPUs(n *corev1.Node) bool {
	for name := range g.offer.node.Status.Allocatable {
		if have := n.Status.Allocatable[name]; strings.Contains(string(name), "/") && have.IsZero() {
			return true
		}
	}
	return false
}

// settle gives back what the provider refused or what did not become a node in time, and has its group wait
// (clusterstate/clusterstate.go: handleInstanceCreationErrors, updateScaleRequests; core/static_autoscaler.go: removeOldUnregisteredNodes).
func (s *autoscaler) settle(ctx context.Context, w *world, requests []provisioningRequest) error {
	var problems []error
	failed := make(map[string][]v1alpha1.Machine)
	for _, m := range slices.Clone(w.machines) { // those that are given back leave the list
		name := groupOf(&m)
		switch {
		case m.Status.Phase == v1alpha1.MachineFailed:
			failed[name] = append(failed[name], m)
		case w.node(m.Name) == nil && !w.now.Before(m.CreationTimestamp.Add(s.Clock.Wall(provisionTime))):
			s.log(ctx, w, corev1.EventTypeWarning, "ScaleUpTimedOut", fmt.Sprintf("Nodes added to group %s failed to register within %v", name, provisionTime))
			s.wait(w, name, "timeout", fmt.Sprintf("Scale-up timed out for node group %s after %v", name, provisionTime))
			problems = append(problems, s.giveBack(ctx, w, m.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		list := failed[name]
		code, message := list[0].Status.Error, list[0].Status.Message
		s.log(ctx, w, corev1.EventTypeWarning, "ScaleUpFailed", fmt.Sprintf("Failed adding %d nodes to group %s due to %s.%s; source errors: %s", len(list), name, errorClass(code), code, message))
		s.wait(w, name, code, message)
		for _, m := range list {
			if r := waitingFor(requests, m.Annotations[consumeKey]); r != nil { // of a request all go, or none
				problems = append(problems, s.withdraw(ctx, w, r))
				continue
			}
			problems = append(problems, s.giveBack(ctx, w, m.Name))
		}
	}
	return errors.Join(problems...)
}

// errorClass is how the autoscaler sorts what a provider says (cloudprovider/cloud_provider.go, InstanceErrorClass).
func errorClass(code string) string {
	if insufficient(code) {
		return "OutOfResource"
	}
	return "Other"
}

// wait keeps a group from growing, twice as long each time (utils/backoff/exponential_backoff.go).
func (s *autoscaler) wait(w *world, name, code, message string) {
	b := s.backoff[name]
	if w.now.Before(b.until) {
		return
	}
	b.last = min(max(2*b.last, firstBackoff), longestBackoff)
	b.until, b.code, b.message = w.now.Add(s.Clock.Wall(b.last)), code, message
	s.backoff[name] = b
}

// log writes an event about the autoscaler's status object.
func (s *autoscaler) log(ctx context.Context, w *world, kind, reason, message string) {
	s.tell(ctx, w.now, corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: statusNamespace, Name: statusName}, "cluster-autoscaler", kind, reason, message, 0)
}

// scaleUp grows groups for pods that fit nowhere. Pods of a ProvisioningRequest are left to it (processors/provreq/pods_filter.go).
func (s *autoscaler) scaleUp(ctx context.Context, w *world, bins []*bin) error {
	var left []*corev1.Pod
	for _, p := range pending(w, 0, 0) {
		if name := p.Annotations[consumeKey]; name != "" {
			s.tell(ctx, w.now, podRef(p), "cluster-autoscaler", corev1.EventTypeNormal, "NotTriggerScaleUp", fmt.Sprintf("Unschedulable pod didn't trigger scale-up, because it's consuming ProvisioningRequest %s/%s", p.Namespace, name), autoscalerQuiet)
			continue
		}
		if !place(bins, p) {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return nil
	}
	var problems []error
	groups := s.groups(w)
	for len(left) > 0 {
		g, nodes, helped := s.best(ctx, w, groups, left, false)
		if g == nil {
			break
		}
		problems = append(problems, s.grow(ctx, w, g, nodes, ""))
		text := fmt.Sprintf("pod triggered scale-up: [{%s %d->%d (max: %d)}]", g.name, g.size, g.size+nodes, g.max)
		for _, p := range helped {
			s.tell(ctx, w.now, podRef(p), "cluster-autoscaler", corev1.EventTypeNormal, "TriggeredScaleUp", text, autoscalerQuiet)
		}
		g.size += nodes
		left = slices.DeleteFunc(left, func(p *corev1.Pod) bool { return slices.Contains(helped, p) })
	}
	for _, p := range left {
		s.tell(ctx, w.now, podRef(p), "cluster-autoscaler", corev1.EventTypeNormal, "NotTriggerScaleUp", "pod didn't trigger scale-up: "+s.refusals(w, groups, p), autoscalerQuiet)
	}
	return errors.Join(problems...)
}

// place puts the pod on the first node that has room.
func place(bins []*bin, p *corev1.Pod) bool {
	for _, b := range bins {
		if b.admits(p, ephemeral) {
			b.put(p)
			return true
		}
	}
	return false
}

// best is the group that grows for the pods, by how many nodes, and whom that helps; all: only groups that help all. Of several the
// expanders choose (core/scaleup/orchestrator/orchestrator.go).
func (s *autoscaler) best(ctx context.Context, w *world, groups []*group, pods []*corev1.Pod, all bool) (*group, int, []*corev1.Pod) {
	var options []option
	for _, g := range groups {
		if s.closed(w, g) != "" {
			continue
		}
		if n, helped := g.estimate(w, pods); n > 0 && (!all || len(helped) == len(pods)) {
			options = append(options, option{g, n, helped})
		}
	}
	o := s.choose(ctx, w, options)
	return o.group, o.nodes, o.helped
}

// waste is the share of CPU, and that of memory, of so many new nodes that the pods leave unused.
func (g *group) waste(nodes int, pods []*corev1.Pod) (sum float64) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		each := g.offer.node.Status.Capacity[name]
		have, used := float64(each.MilliValue())*float64(nodes), 0.0
		for _, p := range pods {
			need := requests(p)[name]
			used += float64(need.MilliValue())
		}
		if have > 0 {
			sum += (have - used) / have
		}
	}
	return sum
}

// estimate is how many nodes of the group the pods take, and which of them are helped (estimator/binpacking_estimator.go).
func (g *group) estimate(w *world, pods []*corev1.Pod) (int, []*corev1.Pod) {
	var bins []*bin
	var helped []*corev1.Pod
	for _, p := range pods {
		if place(bins, p) {
			helped = append(helped, p)
			continue
		}
		b := newBin(g.node(w, fmt.Sprintf("%s-%d", g.name, len(bins))), nil)
		if g.size+len(bins) < g.max && b.admits(p, ephemeral) {
			b.put(p)
			bins, helped = append(bins, b), append(helped, p)
		}
	}
	return len(bins), helped
}

// closed is why the group may not grow now; "": it may (core/scaleup/orchestrator/skippedreasons.go).
func (s *autoscaler) closed(w *world, g *group) string {
	switch {
	case w.now.Before(s.backoff[g.name].until):
		return "in backoff after failed scale-up"
	case g.size >= g.max:
		return "max node group size reached"
	}
	return ""
}

// refusals are why no group grows for the pod, each with its number of groups.
func (s *autoscaler) refusals(w *world, groups []*group, p *corev1.Pod) string {
	count := make(map[string]int)
	var order []string
	for _, g := range groups {
		why := s.closed(w, g)
		n := g.node(w, g.name)
		if t := untolerated(p, n.Spec.Taints, ephemeral); why == "" && t != nil {
			why = fmt.Sprintf("node(s) had untolerated taint(s) {%s}", t.ToString())
		}
		if why == "" && !selects(p, n) {
			why = "node(s) didn't match Pod's node affinity/selector"
		}
		if short := missing(n.Status.Allocatable, requests(p)); why == "" && short != "" {
			why = "Insufficient " + string(short)
		}
		if why == "" {
			continue
		}
		if count[why]++; count[why] == 1 {
			order = append(order, why)
		}
	}
	slices.Sort(order)
	for i, why := range order {
		order[i] = fmt.Sprintf("%d %s", count[why], why)
	}
	return strings.Join(order, ", ")
}

// grow asks for so many more machines (core/scaleup/orchestrator/executor.go).
func (s *autoscaler) grow(ctx context.Context, w *world, g *group, nodes int, request string) error {
	s.log(ctx, w, corev1.EventTypeNormal, "ScaledUpGroup", fmt.Sprintf("Scale-up: setting group %s size to %d instead of %d (max: %d)", g.name, g.size+nodes, g.size, g.max))
	var problems []error
	for range nodes {
		problems = append(problems, s.ask(ctx, w, g.name+"-"+rand.String(5), &g.offer, "", request))
	}
	s.log(ctx, w, corev1.EventTypeNormal, "ScaledUpGroup", fmt.Sprintf("Scale-up: group %s size set to %d instead of %d (max: %d)", g.name, g.size+nodes, g.size, g.max))
	return errors.Join(problems...)
}

// taint puts the taint on the node or takes it away.
func (s *autoscaler) taint(ctx context.Context, n *corev1.Node, t corev1.Taint, on bool) error {
	if slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) }) == on {
		return nil
	}
	next := n.DeepCopy()
	if on {
		next.Spec.Taints = append(next.Spec.Taints, t)
	} else {
		next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
	}
	return s.updateNode(ctx, next)
}

// tellStatus keeps the ConfigMap that people read (clusterstate/api/types.go), as far as node groups are concerned.
func (s *autoscaler) tellStatus(ctx context.Context, w *world) error {
	var groups []map[string]any
	for _, g := range s.groups(w) {
		ready, registered := 0, g.size-len(g.upcoming)
		for i := range w.machines {
			m := &w.machines[i]
			if n := w.node(m.Name); n != nil && readyNode(n) && groupOf(m) == g.name {
				ready++
			}
		}
		up := map[string]any{"status": "NoActivity"}
		if b := s.backoff[g.name]; w.now.Before(b.until) {
			up = map[string]any{"status": "Backoff", "backoffInfo": map[string]any{"errorCode": b.code, "errorMessage": b.message}}
		} else if len(g.upcoming) > 0 {
			up["status"] = "InProgress"
		}
		groups = append(groups, map[string]any{
			"name": g.name, "scaleUp": up,
			"health": map[string]any{
				"status": "Healthy", "cloudProviderTarget": g.size, "minSize": 0, "maxSize": g.max,
				"nodeCounts": map[string]any{"registered": map[string]any{"total": registered, "ready": ready}, "unregistered": len(g.upcoming), "longUnregistered": 0},
			},
		})
	}
	text, err := yaml.Marshal(map[string]any{"autoscalerStatus": "Running", "nodeGroups": groups})
	if err != nil || string(text) == s.status {
		return err
	}
	kept := s.core.CoreV1().ConfigMaps(statusNamespace)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: statusName, Namespace: statusNamespace, Annotations: map[string]string{"cluster-autoscaler.kubernetes.io/last-updated": w.now.UTC().String()}}}
	cm.Data = map[string]string{"status": fmt.Sprintf("time: %s\n%s", w.now.UTC(), text)}
	if _, err = kept.Update(ctx, cm, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = kept.Create(ctx, cm, metav1.CreateOptions{})
	}
	if err == nil {
		s.status = string(text)
	}
	return err
}
