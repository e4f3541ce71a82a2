package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/signs"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// How long something may be unwell until that is a fault and no passing state, and how long a warning tells of the present.
const (
	settles = 10 * time.Minute
	recent  = 30 * time.Minute
)

// What the Deployments of operators of GPU clusters are called, and those of controllers beside them in a namespace of the stack.
var (
	operatorWords   = regexp.MustCompile(`(?i)(gpu|amd|intel|habana|neuron|network|nic|sriov|nfd)-?operator|operator-(gpu|network|nfd)|node-feature-discovery|nfd-(master|gc)|karpenter|cluster-autoscaler|device-plugin|dra-(driver|controller)|kueue-controller|volcano-|kai-(operator|scheduler)|jobset-controller|lws-controller|kuberay-operator|training-operator|trainer-controller|mpi-operator`)
	controllerWords = regexp.MustCompile(`(?i)operator|controller|manager|autoscaler|scheduler|webhook|master|provisioner`)
)

// stackSets are the DaemonSets of the GPU stack, those that operators of nodes own, those beside them, and those that nodes need, by
// namespace and name.
func (c *Cluster) stackSets() []*appsv1.DaemonSet {
	known := make(map[*appsv1.DaemonSet]bool)
	home := make(map[string]bool)
	know := func(d *appsv1.DaemonSet) { // and those beside it
		known[d] = true
		home[d.Namespace] = home[d.Namespace] || d.Namespace != metav1.NamespaceSystem
	}
	//archtest:any-order the result is sorted below
	for _, sets := range c.stack.Sets {
		for _, d := range sets {
			know(d)
		}
	}
	//archtest:any-order the result is sorted below
	for _, sets := range c.plugins {
		for _, d := range sets {
			know(d)
		}
	}
	for _, d := range c.DaemonSets {
		for _, o := range d.OwnerReferences {
			group, _, _ := strings.Cut(o.APIVersion, "/")
			if layer, _ := signs.Whose(group, o.Kind, "", ""); layer == check.L2 {
				know(d)
			}
		}
	}
	var out []*appsv1.DaemonSet
	for _, d := range c.DaemonSets {
		if known[d] || home[d.Namespace] || operatorWords.MatchString(d.Name) || critical(&d.Spec.Template.Spec) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *appsv1.DaemonSet) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// critical says whether the cluster itself, or its nodes, need pods like it: networks, volumes, names.
func critical(s *corev1.PodSpec) bool { return strings.HasPrefix(s.PriorityClassName, "system-") }

// operands are the objects of others that are about machines, their software, their network and their storage, by kind and name. NodePools,
// NodeClaims and Berth's own kinds have items of their own, and what is in a namespace of work is its author's.
func (c *Cluster) operands() []*unstructured.Unstructured {
	home := make(map[string]bool)
	for _, d := range c.stackSets() {
		home[d.Namespace] = true
	}
	var out []*unstructured.Unstructured
	//archtest:any-order the result is sorted below
	for _, all := range c.Foreign {
		for _, u := range all {
			gvk := u.GroupVersionKind()
			if gvk.Group == "berth.dev" || strings.HasSuffix(gvk.Group, ".berth.dev") || gvk.Group == "karpenter.sh" || u.GetDeletionTimestamp() != nil {
				continue
			}
			switch layer, owner := signs.Whose(gvk.Group, gvk.Kind, "", ""); {
			case layer == check.L1 || layer == check.L2, home[u.GetNamespace()] && owner != check.User && owner != check.ML, u.GetNamespace() == "" && (owner == check.Storage || owner == check.Platform):
				out = append(out, u)
			}
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GroupVersionKind().String(), b.GroupVersionKind().String()), strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// report is one fault that is reported of an object.
type report struct {
	text     string // after the object's name
	reason   string
	message  string
	evidence facts.Evidence
}

// reportsOf are the faults that are reported of the object: its conditions, of which one that sums up others is left out, else its last
// warning. What may pass by itself is none.
func (c *Cluster) reportsOf(u *unstructured.Unstructured) []report {
	var bad []facts.Condition
	for _, k := range facts.ConditionsOf(u) {
		age := c.At.Sub(k.Since)
		if k.Since.IsZero() {
			age = c.At.Sub(u.GetCreationTimestamp().Time)
		}
		if k.Bad() && age >= settles {
			bad = append(bad, k)
		}
	}
	bad = telling(bad)
	var out []report
	for _, k := range bad {
		x := report{reason: k.Reason, message: k.Message, evidence: facts.Evidence{Object: facts.RefTo(u).In(), Field: k.Field, Value: strings.TrimSpace(k.Status + " " + cmp.Or(k.Message, k.Reason))}}
		what := fmt.Sprintf("reports %s=%s", k.Type, k.Status)
		if _, word, ok := strings.Cut(k.Type, " "); ok {
			what = "is " + word
		}
		x.text = what + saying(k.Reason, k.Message)
		out = append(out, x)
	}
	if e := c.warningOf(u); e != nil && len(out) == 0 {
		out = append(out, report{text: "has a warning" + saying(e.Reason, e.Message), reason: e.Reason, message: e.Message, evidence: warningShown(u, e)})
	}
	return out
}

// telling leaves out the conditions that repeat others, or sum them up.
func telling(all []facts.Condition) []facts.Condition {
	rank := func(k facts.Condition) int {
		switch {
		case k.Message == "":
			return 3
		case strings.Contains(k.Type, " "): // a state in a word
			return 2
		case k.Type == "Ready":
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b facts.Condition) int { return cmp.Compare(rank(a), rank(b)) })
	var out []facts.Condition
	for _, k := range all {
		if len(out) == 0 || rank(k) == 0 && !slices.ContainsFunc(out, func(o facts.Condition) bool { return o.Message == k.Message }) {
			out = append(out, k)
		}
	}
	return out
}

func saying(reason, message string) string {
	message = strings.TrimSuffix(wording.Shortened(wording.FirstLine(message), 200), ".")
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return " (" + reason + ")"
	case reason == "":
		return ": " + message
	}
	return " (" + reason + "): " + message
}

// ownerOfReport is the role that has to act, by what is said and by the kind of the object.
func (c *Cluster) ownerOfReport(u *unstructured.Unstructured, x report) (check.Layer, check.Owner) {
	gvk := u.GroupVersionKind()
	layer, owner := signs.Whose(gvk.Group, gvk.Kind, x.reason, x.message)
	if layer == check.L2 && supply.OfSupply(supply.CauseOfRefusal(x.reason+": "+x.message)) {
		return check.L1, check.Capacity
	}
	return layer, owner
}

func nextOfReport(u *unstructured.Unstructured, owner check.Owner) string {
	if owner == check.Capacity {
		return "ask who owns the cloud account: it is about stock, quota or a reservation"
	}
	return fmt.Sprintf("do what the message says; else read the log of the controller of %s", u.GetKind())
}

// warningOf is the last warning about the object, where it is recent; nil: there is none.
func (c *Cluster) warningOf(o facts.Object) (last *corev1.Event) {
	r := facts.RefTo(o)
	for _, e := range c.EventsNamed(r.Kind, r.Namespace, r.Name) {
		at := facts.EventTime(e)
		if e.Type != corev1.EventTypeWarning || e.InvolvedObject.UID != "" && o.GetUID() != "" && e.InvolvedObject.UID != o.GetUID() || c.At.Sub(at) > recent {
			continue
		}
		if last == nil || at.After(facts.EventTime(last)) {
			last = e
		}
	}
	return last
}

func warningShown(o facts.Object, e *corev1.Event) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(o).In(), Field: "events[reason=" + e.Reason + "]", Value: e.Message}
}

func podEvidence(p *corev1.Pod) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)}
}

// lastChange is since when the Deployment is as available as it is; its creation where it does not say.
func lastChange(d *appsv1.Deployment) time.Time {
	for _, k := range d.Status.Conditions {
		if k.Type == appsv1.DeploymentAvailable && !k.LastTransitionTime.IsZero() {
			return k.LastTransitionTime.Time
		}
	}
	return d.CreationTimestamp.Time
}
