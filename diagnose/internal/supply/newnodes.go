package supply

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// This file is about nodes that are not there yet: who could make one for a pod, and what keeps it from doing so.

// autoscalerIndex is what facts tell of those who make nodes, read once.
type autoscalerIndex struct {
	pools    []*karpenter.Pool
	groups   []*clusterautoscaler.Group
	launches []*corev1.Event // Karpenter's, about machines that it could not have: newest first
	growth   []*corev1.Event // the cluster autoscaler's, about groups: newest first
}

func autoscaling(f *facts.Facts) *autoscalerIndex {
	return facts.Derive(f, readAutoscaling)
}

func readAutoscaling(f *facts.Facts) *autoscalerIndex {
	s := &autoscalerIndex{pools: readKarpenter(f), groups: readAutoscaler(f)}
	for _, e := range f.Events {
		switch about := e.InvolvedObject; {
		case about.Kind == "NodeClaim":
			s.launches = append(s.launches, e)
		case about.Kind == "ConfigMap" && about.Name == clusterautoscaler.StatusName:
			s.growth = append(s.growth, e)
		}
	}
	facts.NewestFirst(s.launches)
	facts.NewestFirst(s.growth)
	return s
}

// autoscalerSample is how many nodes of a pool are looked at to know what its nodes are like.
const autoscalerSample = 16

// AutoscalerSource is who could make nodes that a pod can use.
type AutoscalerSource struct {
	Pool  *karpenter.Pool          // of Karpenter, or
	Group *clusterautoscaler.Group // of the cluster autoscaler
	Like  *corev1.Node             // what it would make
}

func (s *AutoscalerSource) String() string {
	switch {
	case s.Pool != nil:
		return "NodePool " + s.Pool.GetName()
	case s.Group == nil:
		return "the cluster autoscaler"
	}
	return "node group " + s.Group.Short()
}

// AutoscalerSources are those whose nodes would do for the pod, as far as objects show it. Whether something keeps
// them from making one is another question.
func AutoscalerSources(c *check.Case) []*AutoscalerSource {
	var out []*AutoscalerSource
	for _, p := range KarpenterPools(c.Facts) {
		if len(KarpenterObstacles(c, p)) == 0 {
			out = append(out, &AutoscalerSource{Pool: p, Like: KarpenterNode(c, p)})
		}
	}
	for _, g := range AutoscalerGroups(c.Facts) {
		if fit, like := autoscalerFits(c, g); fit == autoscalerSuits {
			out = append(out, &AutoscalerSource{Group: g, Like: like})
		}
	}
	return out
}

// NewNodeWouldSuit says whether somebody could make a node that the pod can use, so that what the nodes of today have
// is not the last word.
func NewNodeWouldSuit(c *check.Case) bool {
	if c.Hypothetical() {
		return false // of edited facts the engine is asked, not checks about places
	}
	if w := AutoscalerSaid(c); w != nil && len(w.Grows) > 0 {
		return true
	}
	if w := KarpenterSaid(c); w != nil && w.Claim != "" {
		return true
	}
	return len(AutoscalerSources(c)) > 0
}

// Autoscaled says whether it is for those who make nodes to say why there is none that the pod asks for.
func Autoscaled(c *check.Case) bool {
	return len(KarpenterPools(c.Facts)) > 0 || KarpenterSaid(c) != nil || AutoscalerSaid(c).Unsuited() || NewNodeWouldSuit(c)
}

// AutoscalerStuck is what the engine says of a pod that has no place; nil where that is not the question.
func AutoscalerStuck(c *check.Case) *check.Fit {
	if f := place.Stuck(c); f != nil && check.AboutPlaces(f) {
		return f
	}
	return nil
}

// AutoscalerBlind says whether the pod waits for a place, and the nodes, or the pools, cannot be seen.
func AutoscalerBlind(c *check.Case) bool {
	if c.State != facts.Pending || !c.Exists || c.Hypothetical() {
		return false
	}
	return c.Fit == nil || place.Stuck(c) != nil && !c.Sees("nodepools.karpenter.sh", "") && KarpenterSaid(c) != nil
}

// AutoscalerHeard is a finding that goes by words alone. Where the nodes can be seen, the engine is asked whether a node
// that has what the pod asks for would help.
func AutoscalerHeard(c *check.Case, f check.Finding) []check.Finding {
	if c.Fit != nil {
		f.Fit, f.Probe = true, AutoscalerProbe(c, &AutoscalerSource{Like: AutoscalerWished(c)})
	}
	return []check.Finding{f}
}

// autoscalerCount is how many nodes like it hold the pods that lack a place.
func autoscalerCount(c *check.Case, like *corev1.Node) int {
	pods := c.Like
	if f := c.Fit; f != nil {
		pods = max(pods, f.PodsLacking())
	}
	each := int64(pods)
	for name, q := range podspec.Requests(c.Pod) {
		if have := like.Status.Allocatable[name]; !q.IsZero() {
			each = min(each, have.MilliValue()/max(1, q.MilliValue()))
		}
	}
	each = max(1, each)
	return int((int64(pods) + each - 1) / each)
}

// AutoscalerNodes are the nodes that a source would make for the pods.
func AutoscalerNodes(c *check.Case, s *AutoscalerSource) []facts.Object {
	pool := "new"
	if s.Pool != nil {
		pool = s.Pool.GetName()
	} else if s.Group != nil {
		pool = s.Group.Short()
	}
	var out []facts.Object
	for i := range autoscalerCount(c, s.Like) {
		n := s.Like.DeepCopy()
		n.Name = fmt.Sprintf("%s-new-%d", pool, i)
		n.UID, n.ResourceVersion = types.UID("new-"+n.Name), ""
		n.Labels = gpustack.WithLabel(n.Labels, corev1.LabelHostname, n.Name)
		out = append(out, n)
	}
	return out
}

// AutoscalerProbe stands for the source making the nodes.
func AutoscalerProbe(c *check.Case, s *AutoscalerSource) *edit.Edit {
	return &edit.Edit{Side: edit.Cluster, Text: "have " + s.String() + " make nodes", Set: AutoscalerNodes(c, s)}
}

// autoscalerRecent is for how long a failure tells of the present.
const autoscalerRecent = 30 * time.Minute

// AutoscalerFault is the newest failure of a source.
type AutoscalerFault struct {
	Fault      cloudFault
	Code, Text string
	Evidence   []facts.Evidence
}

// autoscalerFails is what went wrong when the source last asked for a machine; false where nothing did, or one came since.
func autoscalerFails(c *check.Case, s *AutoscalerSource) (AutoscalerFault, bool) {
	if s.Pool != nil {
		return KarpenterFailure(c, s.Pool)
	}
	return AutoscalerFailure(c, s.Group)
}

// KarpenterFailure goes by NodeClaims that do not get a machine, and by events of those that are gone: Karpenter
// deletes a claim for which there is no capacity.
func KarpenterFailure(c *check.Case, p *karpenter.Pool) (AutoscalerFault, bool) {
	for _, claim := range p.Claims {
		if l := dialect.ConditionOf(claim, "Launched"); l != nil && l.Status != "True" && machineForPod(c, claim.GetName(), claim, l.Message) {
			fault, code := cloudFaultOf(l.Reason + ": " + l.Message)
			if fault == cloudOther && (l.Status == "False" || l.Reason != "" && !karpenterAwaits[l.Reason]) {
				fault, code = CloudRefused, l.Reason
			}
			if fault != cloudOther {
				return AutoscalerFault{fault, code, l.Message, []facts.Evidence{{Object: facts.RefTo(claim).In(), Field: `status.conditions[type="Launched"].message`, Value: cmp.Or(l.Message, l.Reason)}}}, true
			}
		}
	}
	for _, e := range autoscaling(c.Facts).launches {
		at := facts.EventTime(e)
		stock := e.Reason == "InsufficientCapacityError"
		if !stock && !launchWords.MatchString(e.Reason) || !p.Claimed(e.InvolvedObject.Name) || c.Now.Sub(at) > autoscalerRecent || launchedSince(p, at) {
			continue
		}
		if !machineForPod(c, e.InvolvedObject.Name, nil, e.Message) {
			continue
		}
		_, text, _ := strings.Cut(e.Message, " event: ")
		text = cmp.Or(text, e.Message)
		fault, code := cloudFaultOf(text)
		switch {
		case stock && (fault == cloudOther || fault == CloudNoMachine):
			fault, code = CloudNoCapacity, e.Reason
		case fault == cloudOther:
			fault, code = CloudRefused, e.Reason
		}
		return AutoscalerFault{fault, code, text, []facts.Evidence{{Object: "nodeclaim/" + e.InvolvedObject.Name, Field: "events[reason=" + e.Reason + "]", Value: e.Message}}}, true
	}
	return AutoscalerFault{}, false
}

// karpenterAwaits are reasons of a NodeClaim for which the provider has not been asked yet.
var karpenterAwaits = map[string]bool{"AwaitingReconciliation": true, "Unknown": true}

// launchWords are in the reasons of events about claims that got no machine.
var launchWords = regexp.MustCompile(`(?i)launch.*(fail|error)|(fail|error).*launch|createerror|failedcreate`)

// machineForPod says whether the machine that a NodeClaim asked for could be for the pod: a pool that names no machines
// asks for all kinds, and that one kind is not to be had tells nothing of another. It goes by the machines that the
// provider's answer names, else by what the claim was for; claim is nil where it is gone. Where nothing tells, it could.
func machineForPod(c *check.Case, name string, claim *unstructured.Unstructured, answer string) bool {
	if w := KarpenterSaid(c); w != nil && w.Claim == name {
		return true
	}
	device, _ := podspec.Device(c.Pod)
	if types := karpenter.MachinesIn(answer); len(types) > 0 {
		return slices.ContainsFunc(types, func(t string) bool { return karpenter.HasGPU(t) == (device != "") && asksForMachine(c, t) })
	}
	if claim == nil {
		return true
	}
	asked := karpenter.ResourceList(claim.Object, "spec", "resources", "requests")
	if len(asked) == 0 {
		return true
	}
	_, has := asked[corev1.ResourceName(device)]
	return has || device == ""
}

// asksForMachine says whether the pod leaves it open, or asks for, machines of the type.
func asksForMachine(c *check.Case, machine string) bool {
	return !slices.ContainsFunc(place.NeedsOf(&c.Pod.Spec), func(w place.Need) bool {
		return w.Key == corev1.LabelInstanceTypeStable && len(w.Values) > 0 && !slices.Contains(w.Values, machine)
	})
}

// launchedSince says whether the pool got a machine after the time.
func launchedSince(p *karpenter.Pool, t time.Time) bool {
	for _, claim := range p.Claims {
		if l := dialect.ConditionOf(claim, "Launched"); l != nil && l.Status == "True" && l.At.After(t) {
			return true
		}
	}
	return false
}

// AutoscalerFailure goes by the group's backoff, and by the autoscaler's events where its status has no code.
func AutoscalerFailure(c *check.Case, g *clusterautoscaler.Group) (AutoscalerFault, bool) {
	if g.ScaleUp != "Backoff" {
		return AutoscalerFault{}, false
	}
	status := facts.Evidence{Object: "configmap/kube-system/" + clusterautoscaler.StatusName, Field: fmt.Sprintf("nodeGroups[name=%q].scaleUp.backoffInfo.errorCode", g.Name), Value: g.ErrorCode}
	for _, text := range byReservationFirst(g.ErrorCode, g.ErrorMessage) {
		if fault, code := cloudFaultOf(text); fault != cloudOther {
			return AutoscalerFault{fault, code, cmp.Or(g.ErrorMessage, g.ErrorCode), []facts.Evidence{status}}, true
		}
	}
	for _, e := range autoscaling(c.Facts).growth {
		if !strings.Contains(e.Message, g.Short()) || c.Now.Sub(facts.EventTime(e)) > autoscalerRecent {
			continue
		}
		shown := facts.Evidence{Object: "configmap/kube-system/" + clusterautoscaler.StatusName, Field: "events[reason=" + e.Reason + "]", Value: e.Message}
		if e.Reason == "ScaleUpTimedOut" {
			return AutoscalerFault{CloudNoMachine, e.Reason, e.Message, []facts.Evidence{shown}}, true
		}
		if fault, code := cloudFaultOf(e.Message); fault != cloudOther {
			return AutoscalerFault{fault, code, e.Message, []facts.Evidence{shown}}, true
		}
	}
	text := cmp.Or(g.ErrorMessage, g.ErrorCode, "its last growth failed, and its status does not say why")
	return AutoscalerFault{CloudRefused, cmp.Or(g.ErrorCode, "Backoff"), text, []facts.Evidence{status}}, true
}

// byReservationFirst are the code and the message, and first the message where it says of a reservation what the code does not.
func byReservationFirst(code, message string) []string {
	for clause := range clauses(message) {
		if fault, _ := reservationFaultOf(clause); fault != cloudOther {
			return []string{clause}
		}
	}
	return []string{code, message}
}

// AutoscalerFindings are about sources that failed in the way, worded by say.
func AutoscalerFindings(c *check.Case, want cloudFault, say func(who string, x AutoscalerFault) string) []check.Finding {
	if AutoscalerBlind(c) {
		if w := AutoscalerSaid(c); w != nil && w.Failures != "" {
			if fault, code := cloudFaultOf(w.Failures); fault == want {
				return AutoscalerHeard(c, check.Finding{Message: say("the pod", AutoscalerFault{fault, code, w.Failures, nil}), Evidence: AutoscalerEvidence(w, c)})
			}
		}
		return nil
	}
	if AutoscalerStuck(c) == nil {
		return nil
	}
	var out []check.Finding
	for _, s := range autoscalerFailing(c) {
		if x, _ := autoscalerFails(c, s); x.Fault == want {
			out = append(out, check.Finding{Fit: true, Probe: AutoscalerProbe(c, s), Message: say(s.String(), x), Evidence: slices.Concat(x.Evidence, AutoscalerEvidence(AutoscalerSaid(c), c))})
		}
	}
	if w := AutoscalerSaid(c); len(out) == 0 && w != nil {
		if fault, code := cloudFaultOf(w.Failures); fault == want {
			return AutoscalerHeard(c, check.Finding{Message: say("the pod", AutoscalerFault{fault, code, w.Failures, nil}), Evidence: AutoscalerEvidence(w, c)})
		}
	}
	return out
}

// autoscalerFailing are the sources for the pod that failed. Where the autoscaler says that it gave up on groups, those
// count too of which nobody can tell whether they would do.
func autoscalerFailing(c *check.Case) []*AutoscalerSource {
	fails := func(s *AutoscalerSource) bool { _, ok := autoscalerFails(c, s); return ok }
	out := slices.DeleteFunc(AutoscalerSources(c), func(s *AutoscalerSource) bool { return !fails(s) })
	if len(out) > 0 || AutoscalerSaid(c).Refused("in backoff after failed scale-up") == 0 {
		return out
	}
	for _, s := range AutoscalerMaybe(c) {
		if fails(s) {
			out = append(out, s)
		}
	}
	return out
}

// AutoscalerMaybe are the groups of which nobody can tell whether their nodes would do for the pod.
func AutoscalerMaybe(c *check.Case) []*AutoscalerSource {
	var out []*AutoscalerSource
	for _, g := range AutoscalerGroups(c.Facts) {
		if fit, _ := autoscalerFits(c, g); fit == autoscalerUnknown {
			out = append(out, &AutoscalerSource{Group: g, Like: AutoscalerWished(c)})
		}
	}
	return out
}

// AutoscalerWilling says whether nothing shows that keeps the source from making nodes for the pod.
func AutoscalerWilling(c *check.Case, s *AutoscalerSource) bool {
	if _, failed := autoscalerFails(c, s); failed {
		return false
	}
	if g := s.Group; g != nil {
		return !g.Full() && g.ScaleUp != "Backoff" && g.LongUnregistered == 0
	}
	if what, _ := KarpenterUnready(s.Pool); what != "" || karpenterReservedOnly(c, s.Pool) {
		return false
	}
	return len(Excess(s.Pool, s.Like, autoscalerCount(c, s.Like))) == 0 && KarpenterWell(c, s.Pool.GetName())
}

// KarpenterWell says whether nothing went wrong with the pool's machines lately.
func KarpenterWell(c *check.Case, pool string) bool {
	for _, p := range KarpenterPools(c.Facts) {
		if p.GetName() != pool {
			continue
		}
		if _, failed := KarpenterFailure(c, p); failed {
			return false
		}
		if h := dialect.ConditionOf(p.Unstructured, "NodeRegistrationHealthy"); h != nil && h.Status == "False" {
			return false
		}
	}
	return true
}

// autoscalerSlow is how long a machine takes at most, as a rule, from its launch until its kubelet joins.
const autoscalerSlow = 10 * time.Minute

// KarpenterOverdue says whether the claim's machine runs and should have become a node.
func KarpenterOverdue(claim *unstructured.Unstructured, now time.Time) bool {
	l := dialect.ConditionOf(claim, "Launched")
	if l == nil || l.Status != "True" || dialect.IsTrue(claim, "Registered") || claim.GetDeletionTimestamp() != nil {
		return false
	}
	at := l.At
	if at.IsZero() {
		at = claim.GetCreationTimestamp().Time
	}
	return now.Sub(at) > autoscalerSlow
}

// LaunchedWell says whether a machine of the pool became a node lately.
func LaunchedWell(p *karpenter.Pool, now time.Time) bool {
	return slices.ContainsFunc(p.Claims, func(claim *unstructured.Unstructured) bool {
		r := dialect.ConditionOf(claim, "Registered")
		return r != nil && r.Status == "True" && now.Sub(r.At) < autoscalerRecent
	})
}
