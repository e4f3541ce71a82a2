package l3

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

// webhook is one admission webhook of a configuration.
type webhook struct {
	name   string
	in     facts.Object // its configuration
	client admissionv1.WebhookClientConfig
	fails  bool // calls that fail refuse what they are about

	rules         []admissionv1.RuleWithOperations
	spaces        *metav1.LabelSelector
	objects       *metav1.LabelSelector
	hasConditions bool
}

// webhooks are all that were seen.
func webhooks(f *facts.Facts) []webhook {
	var out []webhook
	for _, c := range f.ValidatingWebhookConfigurations {
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, c, w.ClientConfig, ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Fail, w.Rules, w.NamespaceSelector, w.ObjectSelector, len(w.MatchConditions) > 0})
		}
	}
	for _, c := range f.MutatingWebhookConfigurations {
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, c, w.ClientConfig, ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Fail, w.Rules, w.NamespaceSelector, w.ObjectSelector, len(w.MatchConditions) > 0})
		}
	}
	return out
}

// asked says whether the API server has to ask the webhook before it creates the pod. Conditions, which are programs, are not
// evaluated: with one, it is unknown.
func (w *webhook) asked(f *facts.Facts, p *corev1.Pod) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, word)
	}
	of := func(r admissionv1.RuleWithOperations) bool {
		return (slices.Contains(r.Operations, admissionv1.OperationAll) || slices.Contains(r.Operations, admissionv1.Create)) && has(r.APIGroups, "") && has(r.APIVersions, "v1") && (has(r.Resources, "pods") || slices.Contains(r.Resources, "*/*")) && ptr.Deref(r.Scope, admissionv1.AllScopes) != admissionv1.ClusterScope
	}
	if w.hasConditions || !slices.ContainsFunc(w.rules, of) {
		return false
	}
	space := map[string]string{corev1.LabelMetadataName: p.Namespace}
	for _, n := range f.Namespaces {
		if n.Name == p.Namespace {
			space = n.Labels
		}
	}
	return selects(w.spaces, space) && selects(w.objects, p.Labels)
}

// selects says whether the selector, of which none selects all, selects the labels.
func selects(s *metav1.LabelSelector, of map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

// deafWebhook is a webhook that has to be asked before the pods that the owner should have made long since, and whose server does
// not run; nil: there is none. It is for when no event says why there are no pods: events are gone after an hour.
func deafWebhook(c *check.Case) (*webhook, *appsv1.Deployment) {
	m := c.Owner()
	if !life.Wanted(c) || m == nil || c.Now.Sub(m.GetCreationTimestamp().Time) < facts.SilentAfter || life.Denial(c) != nil {
		return nil, nil
	}
	all := webhooks(c.Facts)
	for i := range all {
		w := &all[i]
		if !w.fails || w.client.Service == nil || !w.asked(c.Facts, c.Pod) {
			continue
		}
		for _, d := range c.Deployments {
			if d.Namespace == w.client.Service.Namespace && d.Name == w.client.Service.Name && d.Status.AvailableReplicas == 0 && d.UID != c.Top.GetUID() && c.Now.Sub(d.CreationTimestamp.Time) > facts.SilentAfter {
				return w, d
			}
		}
	}
	return nil, nil
}

// deafness says of a webhook whose server does not run what is known.
func deafness(w *webhook, d *appsv1.Deployment) string {
	return fmt.Sprintf("deployment %s/%s, which serves webhook %s, has %d of %d replicas available", d.Namespace, d.Name, w.name, d.Status.AvailableReplicas, ptr.Deref(d.Spec.Replicas, 1))
}

// server is where the webhook's answers come from.
func (w *webhook) server() string {
	switch {
	case w.client.Service != nil:
		return "service " + w.client.Service.Namespace + "/" + w.client.Service.Name
	case w.client.URL != nil:
		return *w.client.URL
	}
	return ""
}
