package scheduler

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// asked are the requests that schedulers of all tests made, as "verb group resource/subresource", and those which the role
// does not allow.
var asked = struct {
	mu        sync.Mutex
	all       map[string]bool
	forbidden map[string]bool
}{all: make(map[string]bool), forbidden: make(map[string]bool)}

// asScheduler is the world's client as the scheduler has it: what it asks for is held against its role.
func (w *world) asScheduler() *fake.Clientset {
	c := fake.NewSimpleClientset()
	c.Resources, c.ReactionChain, c.WatchReactionChain = w.client.Resources, nil, nil
	c.AddReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		noteRequest(a)
		o, err := w.client.Invokes(a, nil)
		return true, o, err
	})
	c.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		noteRequest(a)
		i, err := w.client.InvokesWatch(a)
		return true, i, err
	})
	return c
}

func noteRequest(a clienttesting.Action) {
	resource := a.GetResource().Resource
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	if resource == "group" || resource == "resource" || resource == "version" { // discovery, which is for everybody
		return
	}
	name := ""
	switch a := a.(type) {
	case clienttesting.UpdateAction:
		if o, err := meta.Accessor(a.GetObject()); err == nil && a.GetVerb() == "update" {
			name = o.GetName()
		}
	case interface{ GetName() string }:
		name = a.GetName()
	}
	request := a.GetVerb() + " " + a.GetResource().Group + " " + resource
	asked.mu.Lock()
	defer asked.mu.Unlock()
	asked.all[request] = true
	rules := ClusterRules()
	if a.GetNamespace() == Namespace {
		rules = append(rules, NamespaceRules()...)
	}
	if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return allows(&r, a.GetVerb(), a.GetResource().Group, resource, name) }) {
		asked.forbidden[request+" "+a.GetNamespace()+"/"+name] = true
	}
}

func allows(r *rbacv1.PolicyRule, verb, group, resource, name string) bool {
	return slices.Contains(r.Verbs, verb) && slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
}

// elsewhere are groups and resources whose requests do not go through the client of these tests: the server of answers makes
// some, custom resources have clients of their own, and a secret is filled before the scheduler runs (marksfill_test.go). The API
// server itself asks for the right to resourceclaims/binding.
var elsewhere = []string{
	"authentication.k8s.io", "authorization.k8s.io", "apiregistration.k8s.io", "discovery.k8s.io", "berth.dev", "configmaps", "secrets",
	"resourceclaims/binding",
}

// ofDialects are requests for the sake of dialects, whose stories are in cmd/berth.
var ofDialects = []string{"patch batch jobs"}

// auditRights says what of the role no test used, one verb of one resource at a time, and what was asked for without a right.
func auditRights() (problems []string) {
	for _, request := range slices.Sorted(maps.Keys(asked.forbidden)) {
		problems = append(problems, "the scheduler's role does not allow: "+request)
	}
	if f := flag.Lookup("test.run"); f != nil && f.Value.String() != "" || flag.Lookup("test.short").Value.String() == "true" {
		return problems // not all was tried
	}
	for _, r := range append(slices.Clone(clusterRules), leaseRules...) {
		for _, resource := range r.Resources {
			if slices.Contains(elsewhere, r.APIGroups[0]) || slices.Contains(elsewhere, resource) {
				continue
			}
			for _, verb := range r.Verbs {
				if request := verb + " " + r.APIGroups[0] + " " + resource; !asked.all[request] && !slices.Contains(ofDialects, request) {
					problems = append(problems, fmt.Sprintf("no test needs the scheduler's right to %s", strings.TrimSpace(request)))
				}
			}
		}
	}
	return problems
}
