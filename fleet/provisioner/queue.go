package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Why nodes are disrupted (pkg/apis/v1/nodepool.go).
const (
	becauseEmpty         = "Empty"
	becauseDrifted       = "Drifted"
	becauseUnderutilized = "Underutilized"
)

// giveUpAfter is how long the replacements of a command may take (pkg/controllers/disruption/queue.go, minRetryDuration).
const giveUpAfter = 10 * time.Minute

// command is nodes that are being disrupted (pkg/controllers/disruption/types.go). It is in memory alone, as Karpenter's is: whoever is
// killed leaves nodes with a taint, which cleanUp takes away, and replacements, which are nodes like others.
//
//	chosen: tainted, DisruptionReason --> replacements made --> all Initialized --> deleted
//	                                            '--one is gone, or 10 minutes--> taint and condition taken away
type command struct {
	reason       string
	candidates   []string // NodeClaims
	replacements []string // NodeClaims
	ready        map[string]bool
	since        time.Time
}

// disrupting says whether the claim is in a command.
func (k *karpenter) disrupting(claim string) bool {
	return slices.ContainsFunc(k.commands, func(x *command) bool { return slices.Contains(x.candidates, claim) })
}

func claimOf(claims []nodeClaim, name string) *nodeClaim {
	for i := range claims {
		if claims[i].Name == name {
			return &claims[i]
		}
	}
	return nil
}

// start taints the nodes, says why on their claims, and has their replacements made (queue.go, StartCommand). A command without
// replacements ends at once.
func (k *karpenter) start(ctx context.Context, w *world, claims []nodeClaim, reason string, candidates []*nodeClaim, to rescheduled) error {
	x := &command{reason: reason, ready: make(map[string]bool), since: w.now}
	for _, c := range candidates {
		if err := k.mark(ctx, w, c, reason); err != nil {
			return err
		}
		x.candidates = append(x.candidates, c.Name)
	}
	for _, n := range to.news {
		name, err := k.makeClaim(ctx, n)
		if err != nil {
			return err // what is marked and in no command is let go at the next look
		}
		x.replacements = append(x.replacements, name)
	}
	k.Log.Info("disrupt", "reason", reason, "nodeclaims", x.candidates, "replacements", x.replacements)
	k.commands = append(k.commands, x)
	for _, name := range to.onto {
		k.keep(w, name)
	}
	if len(to.news) > 0 {
		return nil
	}
	return k.carryOn(ctx, w, claims)
}

// mark taints the node before anything is asked for in its place, and says why on the claim (queue.go, markDisrupted).
func (k *karpenter) mark(ctx context.Context, w *world, c *nodeClaim, reason string) error {
	if n := nodeOf(w, c); n != nil {
		next := n.DeepCopy()
		next.Spec.Taints = mergeTaints(next.Spec.Taints, []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}})
		if err := k.updateNode(ctx, next); err != nil {
			return err
		}
	}
	k.conditionsOf(w, c).set(condDisruption, metav1.ConditionTrue, reason, reason)
	return k.tellClaim(ctx, c)
}

// carryOn takes the next step of all commands (queue.go, waitOrTerminate).
func (k *karpenter) carryOn(ctx context.Context, w *world, claims []nodeClaim) error {
	var problems []error
	k.commands = slices.DeleteFunc(k.commands, func(x *command) bool {
		done, err := k.step(ctx, w, claims, x)
		problems = append(problems, err)
		return done
	})
	return errors.Join(problems...)
}

func (k *karpenter) step(ctx context.Context, w *world, claims []nodeClaim, x *command) (done bool, err error) {
	for _, name := range x.replacements {
		if x.ready[name] {
			continue
		}
		c := claimOf(claims, name)
		if c == nil && w.now.Equal(x.since) {
			return false, nil // it was made a moment ago
		}
		if c == nil || !w.now.Before(x.since.Add(k.Clock.Wall(giveUpAfter))) {
			k.Log.Info("not disrupted", "reason", x.reason, "nodeclaims", x.candidates, "replacement", name)
			return true, nil // cleanUp lets the candidates go
		}
		k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionLaunching", "Launching NodeClaim: "+x.reason, eventTTL)
		if x.ready[name] = k.conditionsOf(w, c).is(condInitialized); !x.ready[name] {
			k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption", eventTTL)
			return false, nil
		}
	}
	for _, name := range x.candidates {
		c := claimOf(claims, name)
		if c == nil || c.DeletionTimestamp != nil {
			continue
		}
		if n := nodeOf(w, c); n != nil {
			k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting Node: "+x.reason, eventTTL)
		}
		k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting NodeClaim: "+x.reason, eventTTL)
		if err := k.deleteClaim(ctx, w, c); err != nil {
			return false, err
		}
	}
	return true, nil
}

// cleanUp lets nodes go that are marked and in no command: whoever was about to delete them was killed on the way, or their replacement
// did not come (pkg/controllers/disruption/controller.go, Reconcile).
func (k *karpenter) cleanUp(ctx context.Context, w *world, claims []nodeClaim) error {
	for i := range claims {
		c := &claims[i]
		n := nodeOf(w, c)
		if n == nil || n.DeletionTimestamp != nil || c.DeletionTimestamp != nil || k.disrupting(c.Name) {
			continue
		}
		next, err := k.untaint(ctx, n, disruptedTaint)
		if err != nil {
			return err
		}
		w.nodes[slices.Index(w.nodes, n)] = next
		if s := k.conditionsOf(w, c); s.get(condDisruption) != nil {
			s.clear(condDisruption)
			if err := k.tellClaim(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// rescheduled is where pods go: onto nodes that are there, and on new ones.
type rescheduled struct {
	onto []string
	news []*planned
}

// simulate finds room for what runs on the candidates, beside all that waits: on nodes that stay, and on new ones
// (pkg/controllers/disruption/helpers.go, SimulateScheduling). problem is why there is none.
func (k *karpenter) simulate(w *world, pools []nodePool, claims []nodeClaim, candidates []*nodeClaim) (r rescheduled, problem error) {
	leave := func(name string) bool {
		return k.disrupting(name) || slices.ContainsFunc(candidates, func(c *nodeClaim) bool { return c.Name == name })
	}
	bins := slices.DeleteFunc(k.bins(w, claims), func(b *bin) bool { return leave(b.node.Name) })
	templates := k.templates(w, pools, claims)
	pods, mine := pending(w, 0, 0), make(map[*corev1.Pod]bool)
	for i := range claims {
		if c := &claims[i]; c.DeletionTimestamp != nil || k.disrupting(c.Name) {
			pods = append(pods, moving(w, c.Name)...)
		}
	}
	for _, c := range candidates {
		for _, p := range moving(w, c.Name) {
			pods, mine[p] = append(pods, p), true
		}
	}
	sortPods(pods)
pods:
	for _, p := range pods {
		for _, b := range bins {
			if !b.admits(p, ephemeral) {
				continue
			}
			if c := claimOf(claims, b.node.Name); mine[p] && c != nil && !k.conditionsOf(w, c).is(condInitialized) {
				return r, fmt.Errorf("would schedule against uninitialized nodeclaim/%s", c.Name)
			}
			b.put(p)
			r.onto = append(r.onto, b.node.Name)
			continue pods
		}
		if slices.ContainsFunc(r.news, func(n *planned) bool { return n.add(p) == nil }) {
			continue
		}
		n, err := open(templates, p)
		switch {
		case err == nil:
			r.news = append(r.news, n)
		case mine[p]:
			return r, fmt.Errorf("%s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return r, nil
}

// moving are the pods of a node that have to be somewhere else when it goes (pkg/utils/pod/scheduling.go, IsReschedulable).
func moving(w *world, node string) (out []*corev1.Pod) {
	for _, p := range w.on[node] {
		if p.DeletionTimestamp == nil && !ownedBy(p, "DaemonSet") && !ownedBy(p, "Node") {
			out = append(out, p)
		}
	}
	return out
}

// candidate says whether the claim's node may be disrupted now; for those that may not, their node and claim say why
// (pkg/controllers/state/statenode.go, ValidateNodeDisruptable and ValidatePodsDisruptable). Budgets of pods are left to the eviction.
func (k *karpenter) candidate(ctx context.Context, w *world, c *nodeClaim, eventual bool) bool {
	n := nodeOf(w, c)
	if n == nil || n.DeletionTimestamp != nil || c.DeletionTimestamp != nil || k.disrupting(c.Name) || !k.conditionsOf(w, c).is(condInitialized) || w.now.Before(k.nominated[c.Name]) {
		return false
	}
	blocked := func(why string) bool {
		k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeNormal, "DisruptionBlocked", why, eventTTL)
		k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionBlocked", why, eventTTL)
		return false
	}
	if n.Annotations[doNotDisrupt] == "true" {
		return blocked(fmt.Sprintf("Disruption is blocked through the %q annotation", doNotDisrupt))
	}
	for _, p := range w.on[n.Name] {
		if p.Annotations[doNotDisrupt] == "true" && p.DeletionTimestamp == nil && !(eventual && c.Spec.TerminationGracePeriod != "") {
			return blocked(fmt.Sprintf("Pod has %q annotation (Pod=%s/%s)", doNotDisrupt, p.Namespace, p.Name))
		}
	}
	return true
}

// sentence begins with a capital, as Karpenter's events do (pkg/utils/pretty).
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// hashed are the annotations of a NodeClaim by which it is seen that its NodePool changed (pkg/controllers/nodepool/hash).
func hashed(p *nodePool, into map[string]string) map[string]string {
	if into = maps.Clone(into); into == nil {
		into = make(map[string]string)
	}
	into[hashKey], into[hashVersionKey] = p.hash(), hashVersion
	return into
}
