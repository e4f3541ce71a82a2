package l3

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

var webhookDownCheck = check.Check{
	Cause: "webhook-down", Layer: check.L3, Owner: check.Platform, Stage: check.Create, Rank: 7,
	Title:   "An admission webhook does not answer",
	Meaning: "The API server has to ask a webhook before it creates a pod, or binds it to a node, and the webhook cannot be reached, or the one that converts objects between the versions of their kind. No pod that it is asked about can be created or bound, whatever the pod looks like.",
	Remedy:  "Bring the webhook's server back. Until then its owner may set failurePolicy to Ignore, which lets everything pass that it would check.",
	Not:     "The pod breaks a policy: nobody has looked at it.",
	Find:    webhookDown,
}

func webhookDown(c *check.Case) []check.Finding {
	if r := life.DeniedBy(c, life.ByConversion); r != nil && life.Wanted(c) {
		return []check.Finding{{
			Message:  fmt.Sprintf("the webhook that converts %s does not answer, so that objects of the kind can be neither made nor read: %s", r.Name, wording.Shortened(wording.OneLine(r.Text), 300)),
			Evidence: []facts.Evidence{r.Evidence},
			Advice:   "Bring the webhook's server back: spec.conversion of the CustomResourceDefinition says which Service leads to it.",
		}}
	}
	r := life.DeniedBy(c, life.ByBrokenWebhook)
	if r != nil && !c.Exists && !life.Wanted(c) {
		return nil
	}
	stops := ""
	if r == nil {
		if r = life.NotBound(c, life.ByBrokenWebhook); r == nil {
			return unheard(c)
		}
		stops = "; until it does the pod cannot be bound to a node"
	}
	f := check.Finding{Message: fmt.Sprintf("webhook %s does not answer: %s%s", r.Name, wording.Shortened(wording.OneLine(r.Text), 300), stops), Evidence: []facts.Evidence{r.Evidence}}
	all := webhooks(c.Facts)
	at := slices.IndexFunc(all, func(w webhook) bool { return w.name == r.Name })
	if at < 0 {
		if c.Sees("validatingwebhookconfigurations.admissionregistration.k8s.io", "") && c.Sees("mutatingwebhookconfigurations.admissionregistration.k8s.io", "") {
			if c.Edited() {
				return nil // it is gone
			}
			f.Message += "; no webhook of that name is configured any more"
			f.Advice = "Wait until the pods are tried again, which takes up to 17 minutes, or have their owner restarted."
		}
	} else {
		w := &all[at]
		if !w.fails {
			return nil // its failures do not matter any more
		}
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(w.in).In(), Field: fmt.Sprintf("webhooks[%q].clientConfig", w.name), Value: w.server()})
		gone := w.client.Service != nil && strings.Contains(r.Text, fmt.Sprintf("service %q not found", w.client.Service.Name))
		if gone {
			f.Message = fmt.Sprintf("webhook %s does not answer: service %s/%s, which leads to it, does not exist%s", r.Name, w.client.Service.Namespace, w.client.Service.Name, stops)
		}
		if d := servesWebhook(c.Facts, w); d != nil && !gone && d.UID != c.Top.GetUID() {
			if d.Status.AvailableReplicas > 0 && c.WasEdited(d) {
				return nil
			}
			f.Message += fmt.Sprintf("; deployment %s/%s, which serves it, has %d of %s available", d.Namespace, d.Name, d.Status.AvailableReplicas, wording.Number(ptr.Deref(d.Spec.Replicas, 1), "replica"))
			answers := strings.Contains(r.Text, "x509:") // a server answers, and its certificate is not trusted
			if ptr.Deref(d.Spec.Replicas, 1) == 0 && !answers {
				f.Message = fmt.Sprintf("webhook %s does not answer: deployment %s/%s, which serves it, is scaled to 0", r.Name, d.Namespace, d.Name)
			}
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: fmt.Sprint(d.Status.AvailableReplicas)})
			if !answers {
				f.Edits = startServer(d)
			}
		}
	}
	if strings.Contains(r.Text, "x509:") {
		f.Advice = "Renew the certificate of the webhook's server, or have caBundle in its configuration be that of who signed it."
	}
	if others := alsoBlocked(c, r.Name); len(others) > 0 {
		f.Message += fmt.Sprintf("; it blocks pods of %s too", wording.AtMost(3, others))
	}
	return []check.Finding{f}
}

// unheard is about pods that were not made and no event says why, while a webhook that has to be asked about them has no server.
func unheard(c *check.Case) []check.Finding {
	w, d := deafWebhook(c)
	if w == nil {
		return nil
	}
	return []check.Finding{{
		Message: fmt.Sprintf("%s has made no pods for long, and the API server has to ask a webhook about them that cannot answer: %s", facts.RefTo(c.Owner()), deafness(w, d)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(w.in).In(), Field: fmt.Sprintf("webhooks[%q].clientConfig", w.name), Value: w.server()},
			{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: fmt.Sprint(d.Status.AvailableReplicas)},
		},
		Edits: startServer(d),
	}}
}

// servesWebhook is the Deployment behind the webhook's service: the one in its namespace whose name is most like the service's.
func servesWebhook(f *facts.Facts, w *webhook) *appsv1.Deployment {
	if w.client.Service == nil {
		return nil
	}
	var found *appsv1.Deployment
	for _, d := range f.Deployments {
		if d.Namespace != w.client.Service.Namespace {
			continue
		}
		if d.Name == w.client.Service.Name {
			return d
		}
		if found == nil || spelling.Distance(w.client.Service.Name, d.Name) < spelling.Distance(w.client.Service.Name, found.Name) {
			found = d
		}
	}
	if found != nil && found.Status.AvailableReplicas > 0 && !strings.Contains(found.Name, strings.TrimSuffix(w.client.Service.Name, "-svc")) {
		return nil // it is another server
	}
	return found
}

// startServer scales a server up that was scaled to nothing.
func startServer(d *appsv1.Deployment) []edit.Edit {
	if ptr.Deref(d.Spec.Replicas, 1) != 0 {
		return nil
	}
	n := d.DeepCopy()
	one := int32(1)
	n.Spec.Replicas, n.Status.AvailableReplicas, n.Status.ReadyReplicas = &one, 1, 1
	return []edit.Edit{{
		Side: edit.Cluster, Cost: 3, Set: []facts.Object{n}, Text: fmt.Sprintf("scale deployment %s/%s, which serves the webhook, from 0 to 1", d.Namespace, d.Name),
		Command: fmt.Sprintf("kubectl scale deployment %s -n %s --replicas=1", d.Name, d.Namespace), Assumes: "the webhook answers once its server runs",
	}}
}

// alsoBlocked are the other namespaces with the same failure.
func alsoBlocked(c *check.Case, name string) []string {
	var out []string
	for _, e := range c.Events {
		if e.InvolvedObject.Namespace == c.Pod.Namespace || !strings.Contains(e.Message, name) {
			continue
		}
		if r, ok := life.ReadRefusal(e.Message); ok && r.By == life.ByBrokenWebhook && r.Name == name {
			out = append(out, "namespace "+e.InvolvedObject.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
