package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect"
)

// This file is about nodes that are not there yet: who could make one for a pod, and what keeps it from doing so.

// autoscalerIndex is what facts tell of those who make nodes, read once.
type autoscalerIndex struct {
	pools    []*karpenterPool
	groups   []*autoscalerGroup
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
		case about.Kind == "ConfigMap" && about.Name == autoscalerStatusName:
			s.growth = append(s.growth, e)
		}
	}
	facts.NewestFirst(s.launches)
	facts.NewestFirst(s.growth)
	return s
}

// autoscalerSample is how many nodes of a pool are looked at to know what its nodes are like.
const autoscalerSample = 16

// autoscalerSource is who could make nodes that a pod can use.
type autoscalerSource struct {
	pool  *karpenterPool   // of Karpenter, or
	group *autoscalerGroup // of the cluster autoscaler
	like  *corev1.Node     // what it would make
}

func (s *autoscalerSource) String() string {
	switch {
	case s.pool != nil:
		return "NodePool " + s.pool.GetName()
	case s.group == nil:
		return "the cluster autoscaler"
	}
	return "node group " + s.group.short()
}

// autoscalerSources are those whose nodes would do for the pod, as far as objects show it. Whether something keeps
// them from making one is another question.
func (c *Case) autoscalerSources() []*autoscalerSource {
	var out []*autoscalerSource
	for _, p := range karpenterPools(c.Facts) {
		if len(c.karpenterObstacles(p)) == 0 {
			out = append(out, &autoscalerSource{pool: p, like: c.karpenterNode(p)})
		}
	}
	for _, g := range autoscalerGroups(c.Facts) {
		if fit, like := c.autoscalerFits(g); fit == autoscalerSuits {
			out = append(out, &autoscalerSource{group: g, like: like})
		}
	}
	return out
}

// newNodeWouldSuit says whether somebody could make a node that the pod can use, so that what the nodes of today have
// is not the last word.
func (c *Case) newNodeWouldSuit() bool {
	if c.Hypothetical() {
		return false // of edited facts the engine is asked, not checks about places
	}
	if w := c.autoscalerSaid(); w != nil && len(w.grows) > 0 {
		return true
	}
	if w := c.karpenterSaid(); w != nil && w.claim != "" {
		return true
	}
	return len(c.autoscalerSources()) > 0
}

// autoscaled says whether it is for those who make nodes to say why there is none that the pod asks for.
func (c *Case) autoscaled() bool {
	return len(karpenterPools(c.Facts)) > 0 || c.karpenterSaid() != nil || c.autoscalerSaid().unsuited() || c.newNodeWouldSuit()
}

// autoscalerStuck is what the engine says of a pod that has no place; nil where that is not the question.
func (c *Case) autoscalerStuck() *Fit {
	if f := c.stuck(); f != nil && aboutPlaces(f) {
		return f
	}
	return nil
}

// autoscalerBlind says whether the pod waits for a place, and the nodes, or the pools, cannot be seen.
func (c *Case) autoscalerBlind() bool {
	if c.State != facts.Pending || !c.Exists || c.Hypothetical() {
		return false
	}
	return c.Fit == nil || c.stuck() != nil && !c.Sees("nodepools.karpenter.sh", "") && c.karpenterSaid() != nil
}

// autoscalerHeard is a finding that goes by words alone. Where the nodes can be seen, the engine is asked whether a node
// that has what the pod asks for would help.
func (c *Case) autoscalerHeard(f Finding) []Finding {
	if c.Fit != nil {
		f.Fit, f.Probe = true, c.autoscalerProbe(&autoscalerSource{like: c.autoscalerWished()})
	}
	return []Finding{f}
}

// autoscalerCount is how many nodes like it hold the pods that lack a place.
func (c *Case) autoscalerCount(like *corev1.Node) int {
	pods := c.Like
	if f := c.Fit; f != nil {
		pods = max(pods, f.lack())
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

// autoscalerNodes are the nodes that a source would make for the pods.
func (c *Case) autoscalerNodes(s *autoscalerSource) []facts.Object {
	pool := "new"
	if s.pool != nil {
		pool = s.pool.GetName()
	} else if s.group != nil {
		pool = s.group.short()
	}
	var out []facts.Object
	for i := range c.autoscalerCount(s.like) {
		n := s.like.DeepCopy()
		n.Name = fmt.Sprintf("%s-new-%d", pool, i)
		n.UID, n.ResourceVersion = types.UID("new-"+n.Name), ""
		n.Labels = gpustack.WithLabel(n.Labels, corev1.LabelHostname, n.Name)
		out = append(out, n)
	}
	return out
}

// autoscalerProbe stands for the source making the nodes.
func (c *Case) autoscalerProbe(s *autoscalerSource) *edit.Edit {
	return &edit.Edit{Side: edit.Cluster, Text: "have " + s.String() + " make nodes", Set: c.autoscalerNodes(s)}
}

// autoscalerRecent is for how long a failure tells of the present.
const autoscalerRecent = 30 * time.Minute

// autoscalerFault is the newest failure of a source.
type autoscalerFault struct {
	fault      cloudFault
	code, text string
	evidence   []facts.Evidence
}

// autoscalerFails is what went wrong when the source last asked for a machine; false where nothing did, or one came since.
func (c *Case) autoscalerFails(s *autoscalerSource) (autoscalerFault, bool) {
	if s.pool != nil {
		return c.karpenterFailure(s.pool)
	}
	return c.autoscalerFailure(s.group)
}

// karpenterFailure goes by NodeClaims that do not get a machine, and by events of those that are gone: Karpenter
// deletes a claim for which there is no capacity.
func (c *Case) karpenterFailure(p *karpenterPool) (autoscalerFault, bool) {
	for _, claim := range p.claims {
		if l := dialect.ConditionOf(claim, "Launched"); l != nil && l.Status != "True" {
			if fault, code := cloudFaultOf(l.Reason + ": " + l.Message); fault != cloudOther {
				return autoscalerFault{fault, code, l.Message, []facts.Evidence{{Object: facts.RefTo(claim).In(), Field: `status.conditions[type="Launched"].message`, Value: l.Message}}}, true
			}
		}
	}
	for _, e := range autoscaling(c.Facts).launches {
		at := facts.EventTime(e)
		if e.Reason != "InsufficientCapacityError" || !p.claimed(e.InvolvedObject.Name) || c.Now.Sub(at) > autoscalerRecent || p.launchedSince(at) {
			continue
		}
		_, text, _ := strings.Cut(e.Message, " event: ")
		text = cmp.Or(text, e.Message)
		fault, code := cloudFaultOf(text)
		if fault == cloudOther || fault == cloudNoMachine {
			fault, code = cloudNoCapacity, e.Reason
		}
		return autoscalerFault{fault, code, text, []facts.Evidence{{Object: "nodeclaim/" + e.InvolvedObject.Name, Field: "events[reason=" + e.Reason + "]", Value: e.Message}}}, true
	}
	return autoscalerFault{}, false
}

// claimed says whether a NodeClaim of the name was the pool's: Karpenter adds a dash and some letters.
func (p *karpenterPool) claimed(name string) bool {
	rest, ok := strings.CutPrefix(name, p.GetName()+"-")
	return ok && rest != "" && !strings.Contains(rest, "-")
}

// launchedSince says whether the pool got a machine after the time.
func (p *karpenterPool) launchedSince(t time.Time) bool {
	for _, claim := range p.claims {
		if l := dialect.ConditionOf(claim, "Launched"); l != nil && l.Status == "True" && l.At.After(t) {
			return true
		}
	}
	return false
}

// autoscalerFailure goes by the group's backoff, and by the autoscaler's events where its status has no code.
func (c *Case) autoscalerFailure(g *autoscalerGroup) (autoscalerFault, bool) {
	if g.ScaleUp != "Backoff" {
		return autoscalerFault{}, false
	}
	status := facts.Evidence{Object: "configmap/kube-system/" + autoscalerStatusName, Field: fmt.Sprintf("nodeGroups[name=%q].scaleUp.backoffInfo.errorCode", g.Name), Value: g.ErrorCode}
	for _, text := range []string{g.ErrorCode, g.ErrorMessage} {
		if fault, code := cloudFaultOf(text); fault != cloudOther {
			return autoscalerFault{fault, code, cmp.Or(g.ErrorMessage, g.ErrorCode), []facts.Evidence{status}}, true
		}
	}
	for _, e := range autoscaling(c.Facts).growth {
		if !strings.Contains(e.Message, g.short()) || c.Now.Sub(facts.EventTime(e)) > autoscalerRecent {
			continue
		}
		shown := facts.Evidence{Object: "configmap/kube-system/" + autoscalerStatusName, Field: "events[reason=" + e.Reason + "]", Value: e.Message}
		if e.Reason == "ScaleUpTimedOut" {
			return autoscalerFault{cloudNoMachine, e.Reason, e.Message, []facts.Evidence{shown}}, true
		}
		if fault, code := cloudFaultOf(e.Message); fault != cloudOther {
			return autoscalerFault{fault, code, e.Message, []facts.Evidence{shown}}, true
		}
	}
	return autoscalerFault{}, false
}

// autoscalerFindings are about sources that failed in the way, worded by say.
func (c *Case) autoscalerFindings(want cloudFault, say func(who string, x autoscalerFault) string) []Finding {
	if c.autoscalerBlind() {
		if w := c.autoscalerSaid(); w != nil && w.failures != "" {
			if fault, code := cloudFaultOf(w.failures); fault == want {
				return c.autoscalerHeard(Finding{Message: say("the pod", autoscalerFault{fault, code, w.failures, nil}), Evidence: w.evidence(c)})
			}
		}
		return nil
	}
	if c.autoscalerStuck() == nil {
		return nil
	}
	var out []Finding
	for _, s := range c.autoscalerFailing() {
		if x, _ := c.autoscalerFails(s); x.fault == want {
			out = append(out, Finding{Fit: true, Probe: c.autoscalerProbe(s), Message: say(s.String(), x), Evidence: slices.Concat(x.evidence, c.autoscalerSaid().evidence(c))})
		}
	}
	if w := c.autoscalerSaid(); len(out) == 0 && w != nil {
		if fault, code := cloudFaultOf(w.failures); fault == want {
			return c.autoscalerHeard(Finding{Message: say("the pod", autoscalerFault{fault, code, w.failures, nil}), Evidence: w.evidence(c)})
		}
	}
	return out
}

// autoscalerFailing are the sources for the pod that failed. Where the autoscaler says that it gave up on groups, those
// count too of which nobody can tell whether they would do.
func (c *Case) autoscalerFailing() []*autoscalerSource {
	fails := func(s *autoscalerSource) bool { _, ok := c.autoscalerFails(s); return ok }
	out := slices.DeleteFunc(c.autoscalerSources(), func(s *autoscalerSource) bool { return !fails(s) })
	if len(out) > 0 || c.autoscalerSaid().refused("in backoff after failed scale-up") == 0 {
		return out
	}
	for _, s := range c.autoscalerMaybe() {
		if fails(s) {
			out = append(out, s)
		}
	}
	return out
}

// autoscalerMaybe are the groups of which nobody can tell whether their nodes would do for the pod.
func (c *Case) autoscalerMaybe() []*autoscalerSource {
	var out []*autoscalerSource
	for _, g := range autoscalerGroups(c.Facts) {
		if fit, _ := c.autoscalerFits(g); fit == autoscalerUnknown {
			out = append(out, &autoscalerSource{group: g, like: c.autoscalerWished()})
		}
	}
	return out
}

// autoscalerWilling says whether nothing shows that keeps the source from making nodes for the pod.
func (c *Case) autoscalerWilling(s *autoscalerSource) bool {
	if _, failed := c.autoscalerFails(s); failed {
		return false
	}
	if g := s.group; g != nil {
		return !g.full() && g.ScaleUp != "Backoff" && g.LongUnregistered == 0
	}
	if what, _ := karpenterUnready(s.pool); what != "" || c.karpenterReservedOnly(s.pool) {
		return false
	}
	return len(s.pool.excess(s.like, c.autoscalerCount(s.like))) == 0 && c.karpenterWell(s.pool.GetName())
}

// karpenterWell says whether nothing went wrong with the pool's machines lately.
func (c *Case) karpenterWell(pool string) bool {
	for _, p := range karpenterPools(c.Facts) {
		if p.GetName() != pool {
			continue
		}
		if _, failed := c.karpenterFailure(p); failed {
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

// karpenterOverdue says whether the claim's machine runs and should have become a node.
func karpenterOverdue(claim *unstructured.Unstructured, now time.Time) bool {
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

// launchedWell says whether a machine of the pool became a node lately.
func (p *karpenterPool) launchedWell(now time.Time) bool {
	return slices.ContainsFunc(p.claims, func(claim *unstructured.Unstructured) bool {
		r := dialect.ConditionOf(claim, "Registered")
		return r != nil && r.Status == "True" && now.Sub(r.At) < autoscalerRecent
	})
}
