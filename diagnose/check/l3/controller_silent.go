package l3

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/signs"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var controllerSilentCheck = check.Check{
	Cause: "controller-silent", Layer: check.L3, Owner: check.Platform, Stage: check.Create, Rank: 90,
	Title:   "Nobody makes the pods",
	Meaning: "The object should have pods by now, nothing is known to forbid them, and its controller neither makes them nor says why. As a rule the controller does not run: kube-controller-manager for Jobs and Deployments, an operator for other kinds.",
	Remedy:  "Look at the controller of that kind: whether it is installed, runs, and what its log says.",
	Not:     "There is no room for the pods: they would exist, and be Pending.",
	Find:    controllerSilent,
}

func controllerSilent(c *check.Case) []check.Finding {
	m := c.Owner()
	u, foreign := m.(*unstructured.Unstructured)
	untouched := foreign && c.Like == 0 && unread(u) && len(c.Children(u)) == 0
	if c.State != facts.Absent || c.Like < 1 && !untouched || c.Now.Sub(m.GetCreationTimestamp().Time) < facts.SilentAfter || c.Edited() || life.Denial(c) != nil || !c.Sees("events", m.GetNamespace()) || !c.Sees("pods", m.GetNamespace()) {
		return nil
	}
	if w, _ := deafWebhook(c); w != nil || foreign && len(c.Children(u)) > 0 {
		return nil // nobody could make them, or its controller has begun
	}
	if j, ok := m.(*batchv1.Job); ok && (j.Status.Failed > 0 || ptr.Deref(j.Status.Terminating, 0) > 0) {
		return nil // it waits before it tries again
	}
	for _, o := range c.Children(m) {
		if o.GetDeletionTimestamp() != nil {
			return nil // it waits for that pod to go
		}
	}
	r := facts.RefTo(m)
	for _, e := range c.EventsNamed(r.Kind, r.Namespace, r.Name) {
		said := c.Now.Sub(facts.EventTime(e)) < facts.SilentAfter || e.Type == corev1.EventTypeWarning
		if said && e.InvolvedObject.UID == m.GetUID() {
			return nil
		}
	}
	if len(life.Failures(m)) > 0 || slices.ContainsFunc(signs.Of(c), func(s signs.Sign) bool { return s.Object == r.In() && !s.Young }) {
		return nil // it says that it cannot, in words that no check knows
	}
	for _, other := range c.Checks {
		if other.Stage == check.Create && other.Cause != "controller-silent" && len(other.Find(c)) > 0 {
			return nil
		}
	}
	if untouched {
		return []check.Finding{{
			Last: true, Message: fmt.Sprintf("%s has no status and has made nothing for %s: no controller of its kind has looked at it", r, wording.Minutes(c.Now.Sub(m.GetCreationTimestamp().Time))),
			Evidence: []facts.Evidence{{Object: r.In(), Field: "status", Value: "empty"}},
		}}
	}
	f := check.Finding{
		Last:     true, // silence is no cause where there are events
		Message:  fmt.Sprintf("%s should have made %s, and its controller has neither made them nor said why", r, wording.Pods(c.Like)),
		Evidence: []facts.Evidence{{Object: r.In(), Field: "metadata.creationTimestamp", Value: m.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")}},
	}
	if since, e := c.ManagerGone(); !foreign && !since.IsZero() {
		f.Message += fmt.Sprintf(": kube-controller-manager, which has that controller, has not renewed its lease since %s", since.UTC().Format("2006-01-02 15:04 MST"))
		f.Evidence = append(f.Evidence, e)
		f.Advice = "Start kube-controller-manager on the control plane; its log says why it does not run. Until then nothing is made for any Job, Deployment or other kind of Kubernetes itself."
	}
	return []check.Finding{f}
}

// unread says whether no controller has written a status on the object, which does not say that it is held back.
func unread(u *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	held, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	return len(status) == 0 && !held
}
