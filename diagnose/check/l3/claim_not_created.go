package l3

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

var claimNotCreatedCheck = check.Check{
	Cause: "claim-not-created", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 25,
	Title:   "A ResourceClaim of the pod does not exist",
	Meaning: "The pod claims devices through a ResourceClaim, or a template for one, and the claim is not there. The scheduler does not look at the pod, and says nothing.",
	Remedy:  "Name a template or a claim that exists in the namespace; if it does, look at the controller that makes claims, in kube-controller-manager.",
	Not:     "All devices are taken: nobody has looked for one.",
	Find:    claimNotCreated,
}

func claimNotCreated(c *check.Case) []check.Finding {
	if !c.Waits() {
		return nil
	}
	var out []check.Finding
	for i := range c.Pod.Spec.ResourceClaims {
		claim := &c.Pod.Spec.ResourceClaims[i]
		switch {
		case claim.ResourceClaimName != nil:
			out = append(out, claimMissing(c, i, "resourceClaimName", "ResourceClaim", "resourceclaims", *claim.ResourceClaimName)...)
		case claim.ResourceClaimTemplateName != nil:
			name := *claim.ResourceClaimTemplateName
			missing := claimMissing(c, i, "resourceClaimTemplateName", "ResourceClaimTemplate", "resourceclaimtemplates", name)
			if len(missing) == 0 && claimLate(c, claim) {
				missing = claimUnmade(c, claim, name)
			}
			out = append(out, missing...)
		}
	}
	return out
}

// claimUnmade says that nobody has made the claim from its template, and why where the API server refused it. Whoever refused it by
// a rule of his own has a check of his own.
func claimUnmade(c *check.Case, claim *corev1.PodResourceClaim, template string) []check.Finding {
	owner, exists := check.Platform, "which exists"
	if !c.Sees("resourceclaimtemplates.resource.k8s.io", c.Pod.Namespace) { // a name that was written wrong is likelier than a controller that is down
		owner, exists = check.User, "which cannot be seen"
	}
	f := check.Finding{
		Owner:    owner,
		Message:  fmt.Sprintf("no claim has been made for %s of pod %s from template %s, %s, for %s", claim.Name, c.Pod.Name, template, exists, wording.Minutes(c.Age())),
		Evidence: append([]facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.resourceClaimStatuses", Value: "without " + claim.Name}}, claimSaid(c)...),
		Advice:   "Look at the resource claim controller in kube-controller-manager.",
	}
	r := life.Denial(c)
	switch {
	case lacksAdminAccess(c, template, &f):
	case r == nil:
		if said := claimSaid(c); len(said) > 0 { // in words that are not known here
			f.Message = fmt.Sprintf("no claim is made for %s of pod %s from template %s: %s", claim.Name, c.Pod.Name, template, wording.Shortened(wording.OneLine(said[0].Value), 300))
			f.Advice = "Do what the message says; claims are made again by themselves."
		}
	case r.By == life.ByValidation:
		f.Owner = check.User
		f.Message = fmt.Sprintf("template %s makes no claim for %s of pod %s, because the API server does not take it: %s", template, claim.Name, c.Pod.Name, wording.Shortened(wording.OneLine(r.Text), 300))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: "resourceclaimtemplate/" + c.Pod.Namespace + "/" + template, Field: "spec.spec", Value: wording.Shortened(wording.OneLine(r.Text), 200)})
		f.Advice = "Change the template, or the namespace, as the message says; claims are made again by themselves."
	case r.By == life.ByQuota && claimRefused(c, r):
		return nil
	case r.By == life.ByWebhook, r.By == life.ByPolicy, r.By == life.ByBrokenWebhook, r.By == life.ByRights, r.By == life.ByOther:
		return nil
	default:
		f.Message = fmt.Sprintf("no claim is made for %s of pod %s from template %s: %s", claim.Name, c.Pod.Name, template, wording.Shortened(wording.OneLine(r.Text), 300))
	}
	return []check.Finding{f}
}

// adminLabel is what a namespace needs before claims in it may ask for adminAccess: to devices that others use
// (k8s.io/api/resource/v1, DRAAdminNamespaceLabelKey).
const adminLabel = "resource.kubernetes.io/admin-access"

// lacksAdminAccess is about a template that asks for what only namespaces with a label may have, and a namespace without it: the API server takes
// no claim that is made from it.
func lacksAdminAccess(c *check.Case, template string, f *check.Finding) bool {
	t := place.Named(c.ResourceClaimTemplates, c.Pod.Namespace, template)
	ns := place.Named(c.Namespaces, "", c.Pod.Namespace)
	if t == nil || ns == nil || ns.Labels[adminLabel] == "true" {
		return false
	}
	at := slices.IndexFunc(t.Spec.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && ptr.Deref(r.Exactly.AdminAccess, false)
	})
	if at < 0 {
		return false
	}
	f.Owner = check.Policy
	f.Message = fmt.Sprintf("template %s asks for adminAccess to devices, and the API server takes such claims only in namespaces with the label %s=true, which %s does not have", template, adminLabel, ns.Name)
	f.Evidence = append([]facts.Evidence{
		{Object: facts.RefTo(t).In(), Field: fmt.Sprintf("spec.spec.devices.requests[%d].exactly.adminAccess", at), Value: "true"},
		{Object: facts.RefTo(ns).In(), Field: fmt.Sprintf("metadata.labels[%q]", adminLabel), Value: "absent"},
	}, f.Evidence...)
	f.Advice = "Have the namespace labelled, if its authors may see the devices of others; or ask without adminAccess."
	return true
}

// claimMissing says that the named template or claim is not in the namespace.
func claimMissing(c *check.Case, i int, field, kind, resource, name string) []check.Finding {
	ns := c.Pod.Namespace
	if !c.Sees(resource+".resource.k8s.io", ns) {
		return claimUnseen(c, i, kind, name)
	}
	var have []string
	if kind == "ResourceClaim" {
		for _, o := range c.ResourceClaims {
			if o.Namespace == ns {
				have = append(have, o.Name)
			}
		}
	} else {
		for _, o := range c.ResourceClaimTemplates {
			if o.Namespace == ns {
				have = append(have, o.Name)
			}
		}
	}
	if slices.Contains(have, name) {
		if kind == "ResourceClaim" {
			return claimGoes(c, i, name)
		}
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("there is no %s %s in namespace %s, which the pod names", kind, name, ns),
		Evidence: append([]facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.resourceClaims[%d].%s", i, field), Value: name}}, claimSaid(c)...),
	}
	if near, ok := spelling.Closest(name, have); ok || len(have) == 1 {
		f.Edits = []edit.Edit{{
			Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("name %s %s instead of %s", kind, near, name),
			Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "resourceClaims", strconv.Itoa(i), field), Value: near}},
		}}
	}
	return []check.Finding{f}
}

// claimUnseen goes by the silence of kube-scheduler where claims may not be read: it writes on every pod why it waits, but on those that it
// does not look at, as a claim that they name is not there, or is being deleted.
func claimUnseen(c *check.Case, i int, kind, name string) []check.Finding {
	if kind != "ResourceClaim" || !unspoken(c) {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("kube-scheduler has not looked at pod %s for %s, as it does where a claim is not there or is being deleted; the pod names ResourceClaim %s, and claims cannot be seen", c.Pod.Name, wording.Minutes(c.Age()), name),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.resourceClaims[%d].resourceClaimName", i), Value: name}},
	}}
}

// unspoken says whether kube-scheduler, of which nothing shows that it does not run, has written nothing on the pod for long.
func unspoken(c *check.Case) bool {
	if !c.Exists || c.Edited() || c.Pod.Spec.SchedulerName != corev1.DefaultSchedulerName || c.Age() < facts.SilentAfter || spokenOf(c) {
		return false
	}
	how, _, _ := c.Scheduler(corev1.DefaultSchedulerName)
	return how != facts.SchedulerDead
}

// claimGoes is about a claim that was deleted, and that stays only as long as others use it: no pod is started with it.
func claimGoes(c *check.Case, i int, name string) []check.Finding {
	for _, o := range c.ResourceClaims {
		if o.Namespace != c.Pod.Namespace || o.Name != name || o.DeletionTimestamp == nil {
			continue
		}
		f := check.Finding{
			Message: fmt.Sprintf("ResourceClaim %s, which the pod names, is being deleted since %s, and no new pod may use it", name, wording.Minutes(c.Now.Sub(o.DeletionTimestamp.Time))),
			Evidence: []facts.Evidence{
				{Object: facts.RefTo(o).In(), Field: "metadata.deletionTimestamp", Value: o.DeletionTimestamp.UTC().Format(time.RFC3339)},
				{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.resourceClaims[%d].resourceClaimName", i), Value: name},
			},
			Advice: "Make the claim anew once it has gone, or name another one.",
		}
		var users []string
		for _, r := range o.Status.ReservedFor {
			if r.UID != c.Pod.UID {
				users = append(users, r.Resource+"/"+r.Name)
			}
		}
		if len(users) > 0 {
			f.Message += "; it stays as long as it is used by " + wording.AtMost(3, users)
		}
		return []check.Finding{f}
	}
	return nil
}

// claimLate says whether the pod should have got its claim by now.
func claimLate(c *check.Case, claim *corev1.PodResourceClaim) bool {
	return c.Exists && c.Age() > life.Patience && life.LacksClaim(c.Pod, claim)
}

// claimSaid is what the controller that makes claims said of the pod.
func claimSaid(c *check.Case) []facts.Evidence {
	for _, e := range c.EventsOf(c.Pod, "FailedResourceClaimCreation") {
		return []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "event " + e.Reason, Value: e.Message}}
	}
	return nil
}
