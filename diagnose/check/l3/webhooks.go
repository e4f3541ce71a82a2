package l3

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/facts"
)

// webhook is one admission webhook of a configuration.
type webhook struct {
	name   string
	in     facts.Object // its configuration
	client admissionv1.WebhookClientConfig
	fails  bool // calls that fail refuse what they are about
}

// webhooks are all that were seen.
func webhooks(f *facts.Facts) []webhook {
	var out []webhook
	for _, c := range f.ValidatingWebhookConfigurations {
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, c, w.ClientConfig, ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Fail})
		}
	}
	for _, c := range f.MutatingWebhookConfigurations {
		for _, w := range c.Webhooks {
			out = append(out, webhook{w.Name, c, w.ClientConfig, ptr.Deref(w.FailurePolicy, admissionv1.Fail) == admissionv1.Fail})
		}
	}
	return out
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
