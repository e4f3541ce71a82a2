package l3

import (
	"cmp"
	"fmt"
	"strings"

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

// serviceAccountMissing goes by the refusal: service accounts are not read.
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
	if name != "default" {
		ops := []edit.Op{{Op: "replace", Path: "/spec/serviceAccountName", Value: "default"}}
		if place.Written(c).Spec.DeprecatedServiceAccount != "" {
			ops = append(ops, edit.Op{Op: "replace", Path: "/spec/serviceAccount", Value: "default"})
		}
		f.Edits = []edit.Edit{{Side: edit.Workload, Cost: 2, Text: "name service account default, which every namespace has", Ops: ops, Assumes: "the work needs no rights of its own"}}
	}
	return []check.Finding{f}
}

// noAccount is what says that there is no such account: the API server when it refuses a pod, or the kubelet, which gets no
// token for a pod whose account was deleted since.
func noAccount(c *check.Case, name string) (facts.Evidence, bool) {
	if r := life.DeniedBy(c, life.ByServiceAccount); r != nil && life.Wanted(c) && r.Name == name { // else the pod names another by now
		return r.Evidence, true
	}
	for _, e := range life.Troubles(c, "FailedMount") {
		if strings.Contains(e.Message, fmt.Sprintf("serviceaccounts %q not found", name)) {
			return life.Shown(e), true
		}
	}
	return facts.Evidence{}, false
}
