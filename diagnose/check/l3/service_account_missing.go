package l3

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var serviceAccountMissingCheck = check.Check{
	Cause: "service-account-missing", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 2,
	Title:   "The pod names a service account that does not exist",
	Meaning: "The API server refuses to create a pod whose serviceAccountName is not the name of a ServiceAccount in its namespace.",
	Remedy:  "Create the service account, or name one that exists.",
	Find:    serviceAccountMissing,
}

// serviceAccountMissing goes by the service accounts that were read, and by the refusal where they may not be.
func serviceAccountMissing(c *check.Case) []check.Finding {
	name := cmp.Or(c.Pod.Spec.ServiceAccountName, "default")
	shown, ok := noAccount(c, name)
	if !ok {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("there is no service account %s in namespace %s, which the pod names", name, c.Pod.Namespace),
		Evidence: []facts.Evidence{shown, {Object: facts.RefTo(c.Pod).In(), Field: "spec.serviceAccountName", Value: name}},
		Advice:   fmt.Sprintf("Create it (kubectl create serviceaccount %s -n %s), or name one that exists.", name, c.Pod.Namespace),
	}
	for _, a := range c.ServiceAccounts {
		if a.Namespace == c.Pod.Namespace && a.Name != "default" && place.Misspelt(name, a.Name) {
			f.Edits = append(f.Edits, naming(c, a.Name, fmt.Sprintf("name service account %s, which exists, instead of %s", a.Name, name), 1, ""))
		}
	}
	if name != "default" {
		f.Edits = append(f.Edits, naming(c, "default", "name service account default, which every namespace has", 2, "the work needs no rights of its own"))
	}
	if readAccounts(c) {
		made := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Pod.Namespace, UID: types.UID("to come " + name)}}
		f.Edits = append(f.Edits, edit.Edit{
			Side: edit.Cluster, Cost: 2, Set: []facts.Object{made}, Text: fmt.Sprintf("create service account %s in namespace %s", name, c.Pod.Namespace),
			Command: fmt.Sprintf("kubectl create serviceaccount %s -n %s", name, c.Pod.Namespace), Assumes: "the work needs no rights of its own",
		})
	}
	return []check.Finding{f}
}

// naming has the pod name another account.
func naming(c *check.Case, name, text string, cost int, assumes string) edit.Edit {
	ops := []edit.Op{{Op: "replace", Path: "/spec/serviceAccountName", Value: name}}
	if place.Written(c).Spec.DeprecatedServiceAccount != "" {
		ops = append(ops, edit.Op{Op: "replace", Path: "/spec/serviceAccount", Value: name})
	}
	return edit.Edit{Side: edit.Workload, Cost: cost, Text: text, Ops: ops, Assumes: assumes}
}

// readAccounts says whether the service accounts of the namespace were read. Every namespace has one: where there is none anywhere,
// they were not read.
func readAccounts(c *check.Case) bool {
	return len(c.ServiceAccounts) > 0 && c.Sees("serviceaccounts", c.Pod.Namespace)
}

// noAccount is what says that there is no such account: that it was looked for; the API server when it refuses a pod; or the kubelet,
// which gets no token for a pod whose account was deleted since.
func noAccount(c *check.Case, name string) (facts.Evidence, bool) {
	exists := place.Named(c.ServiceAccounts, c.Pod.Namespace, name) != nil
	if exists {
		return facts.Evidence{}, false // it was made since
	}
	if r := life.DeniedBy(c, life.ByServiceAccount); r != nil && life.Wanted(c) && r.Name == name { // else the pod names another by now
		return r.Evidence, true
	}
	for _, e := range life.Troubles(c, "FailedMount") {
		if strings.Contains(e.Message, fmt.Sprintf("serviceaccounts %q not found", name)) {
			return life.Shown(e), true
		}
	}
	if name != "default" && !c.Exists && life.Wanted(c) && readAccounts(c) { // a namespace gets its default when it is made
		return facts.Evidence{Object: facts.Ref{Kind: "ServiceAccount", Namespace: c.Pod.Namespace, Name: name}.In(), Field: "metadata.name", Value: "does not exist"}, true
	}
	return facts.Evidence{}, false
}
