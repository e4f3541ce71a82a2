package l3

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/restartallcontainers"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/usernamespaceshostnetwork"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/volumebindmountoptions"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Nodes declare which features of a kubelet they have (status.declaredFeatures), and the scheduler, from Kubernetes 1.36 on, keeps a pod from
// nodes that lack one that its spec needs (pkg/scheduler/framework/plugins/nodedeclaredfeatures).

const (
	featureUnmet  = "node(s) didn't match Pod's required features"
	featureAdvice = "Have kubelets and container runtimes of the nodes support the feature, or leave the field out that needs it."
)

// undeclared is about features that the pod needs and no node declares.
func undeclared(c *check.Case, f *check.Fit) (check.Finding, bool) {
	for _, feature := range convert.FeaturesNeeded(c.Pod) {
		if len(f.Nodes) == 0 || slices.ContainsFunc(f.Nodes, func(n check.NodeFit) bool { return slices.Contains(n.Status.DeclaredFeatures, feature) }) {
			continue
		}
		found := check.Finding{
			Fit: true, Message: fmt.Sprintf("no node declares feature %s, which the pod needs", feature), Evidence: place.SaidEvidence(c), Advice: featureAdvice,
		}
		if e, fields := needless(c, feature); len(fields) > 0 {
			found.Message += " for " + strings.Join(fields, " and ")
			found.Edits = []edit.Edit{e}
			for _, field := range fields {
				found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: field, Value: "set"})
			}
		}
		found.Edits = append(found.Edits, declaring(f)...)
		found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(f.Nodes[0].Node).In(), Field: "status.declaredFeatures", Value: declaredWords(f.Nodes[0].Node)})
		return found, true
	}
	return check.Finding{}, false
}

// declaring has the nodes that lack nothing but one feature declare it. That is what the pod asks for, as it is written.
func declaring(f *check.Fit) (out []edit.Edit) {
	lacking := make(map[string][]*check.NodeFit)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if len(n.Removed) != 1 || len(n.ExcludedBy) > 0 || n.Empty == 0 || n.Removed[0].Kind != why.BySelector {
			continue
		}
		if feature := featureOf(n.Removed[0]); feature != "" {
			lacking[feature] = append(lacking[feature], n)
		}
	}
	for _, feature := range slices.Sorted(maps.Keys(lacking)) {
		nodes := lacking[feature]
		out = append(out, edit.Edit{
			Side: edit.Cluster, Cost: edit.CostSmall, Text: fmt.Sprintf("have the kubelet of %s declare feature %s", place.NamesOf(nodes), feature),
			Assumes: "its version and its container runtime have the feature", Set: place.Mended(nodes, func(n *corev1.Node) {
				n.Status.DeclaredFeatures = slices.Sorted(slices.Values(append(n.Status.DeclaredFeatures, feature)))
			}),
		})
	}
	return out
}

// undeclaredAsSaid goes by the scheduler's words, where a newer one knows of a feature that is not known here.
func undeclaredAsSaid(c *check.Case) []check.Finding {
	said, ok := place.SaidOf(c)
	if !ok || c.State != facts.Pending || said.Count(featureUnmet) == 0 || len(c.Nodes) == 0 {
		return nil
	}
	return []check.Finding{{
		Last: true, Owner: check.Platform, Advice: featureAdvice,
		Message:  fmt.Sprintf("%d of %s do not declare a feature that the pod needs; which it is the scheduler does not say; node %s declares %s", said.Count(featureUnmet), wording.Number(said.Nodes, "node"), c.Nodes[0].Name, declaredWords(c.Nodes[0])),
		Evidence: place.SaidEvidence(c),
	}}
}

func declaredWords(n *corev1.Node) string {
	if len(n.Status.DeclaredFeatures) == 0 {
		return "none"
	}
	return strings.Join(n.Status.DeclaredFeatures, ", ")
}

// featureOf is the feature that the clause is about, "" for a clause about labels.
func featureOf(r why.Clause) string {
	key, _, _ := strings.Cut(r.Detail, "=")
	if feature, ok := convert.NodeFeature(key); ok {
		return feature
	}
	return ""
}

// containerField is where the container is written in its pod.
func containerField(k *life.Container) string {
	list := "containers"
	if k.Init {
		list = "initContainers"
	}
	return fmt.Sprintf("spec.%s[%q]", list, k.Name)
}

// needless is the edit after which the pod does not need the feature, and the fields that need it; none for a feature that is not known here.
func needless(c *check.Case, feature string) (e edit.Edit, fields []string) {
	e = edit.Edit{Side: edit.Workload, Cost: edit.CostSmall}
	p := place.Written(c)
	switch feature {
	case usernamespaceshostnetwork.UserNamespacesHostNetworkSupport:
		e.Text, e.Assumes = "take spec.hostUsers away, so that the pod runs in the user namespace of its node", "the pod may run as users of the node"
		e.Ops, fields = []edit.Op{{Op: "remove", Path: "/spec/hostUsers"}}, []string{"spec.hostUsers", "spec.hostNetwork"}
	case restartallcontainers.RestartAllContainersOnContainerExits:
		e.Text, e.Assumes = "have a container that fails be restarted alone, and not all of the pod", "the other containers can go on without it"
		for _, k := range life.ContainersOf(p) {
			for i, r := range k.RestartPolicyRules {
				if r.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
					e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: k.Path("restartPolicyRules", strconv.Itoa(i), "action"), Value: string(corev1.ContainerRestartRuleActionRestart)})
					fields = append(fields, fmt.Sprintf("%s.restartPolicyRules[%d].action", containerField(&k), i))
				}
			}
		}
	case volumebindmountoptions.VolumeBindMountOptionsFeatureName:
		e.Text, e.Assumes = "mount its volumes without options of their own", "it can do without the mount options"
		for _, k := range life.ContainersOf(p) {
			for i, m := range k.VolumeMounts {
				if len(m.BindMountOptions) > 0 {
					e.Ops = append(e.Ops, edit.Op{Op: "remove", Path: k.Path("volumeMounts", strconv.Itoa(i), "bindMountOptions")})
					fields = append(fields, fmt.Sprintf("%s.volumeMounts[%d].bindMountOptions", containerField(&k), i))
				}
			}
		}
	}
	return e, fields
}
