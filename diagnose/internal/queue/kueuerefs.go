package queue

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// KueueReference is a name in a ClusterQueue, or in what it is made of, and the kind of object that it names.
type KueueReference struct {
	facts.Evidence
	From *unstructured.Unstructured
	Path string // a JSON pointer to the name
	Kind string
	Name string
}

const (
	flavorKind   = "ResourceFlavor.kueue.x-k8s.io"
	topologyKind = "Topology.kueue.x-k8s.io"
	checkKind    = "AdmissionCheck.kueue.x-k8s.io"
)

// KueueReferences are what the ClusterQueue is made of: its flavors, their topologies, and its admission checks.
func KueueReferences(f *facts.Facts, cluster *unstructured.Unstructured) []KueueReference {
	var out []KueueReference
	add := func(from *unstructured.Unstructured, kind, name string, path ...string) {
		if name != "" {
			field := strings.Join(path, ".")
			out = append(out, KueueReference{Evidence: facts.Evidence{Object: facts.RefTo(from).In(), Field: field, Value: name}, From: from, Path: edit.Pointer(path...), Kind: kind, Name: name})
		}
	}
	for i, group := range dialect.Items(cluster.Object, "spec", "resourceGroups") {
		for k, flavor := range dialect.Items(group, "flavors") {
			name := dialect.Text(flavor, "name")
			add(cluster, flavorKind, name, "spec", "resourceGroups", fmt.Sprint(i), "flavors", fmt.Sprint(k), "name")
			if u := f.ForeignNamed(flavorKind, "", name); u != nil {
				add(u, topologyKind, dialect.Text(u.Object, "spec", "topologyName"), "spec", "topologyName")
			}
		}
	}
	for i, k := range dialect.Items(cluster.Object, "spec", "admissionChecksStrategy", "admissionChecks") {
		add(cluster, checkKind, dialect.Text(k, "name"), "spec", "admissionChecksStrategy", "admissionChecks", fmt.Sprint(i), "name")
	}
	return out
}

// Renamed has the reference name another object, which exists. False for the topology of a flavor, which cannot be changed once it is set.
func (r *KueueReference) Renamed(cluster *unstructured.Unstructured, name string) (edit.Edit, bool) {
	if r.Kind == topologyKind {
		return edit.Edit{}, false
	}
	return edit.Edit{
		Side: edit.Cluster, Cost: edit.CostWord, Text: fmt.Sprintf("name %s in place of %s in %s", name, r.Name, facts.RefTo(r.From)),
		Set:     []facts.Object{edit.WithValues(cluster, map[string]any{r.Path: name, "/status/conditions": nil})},
		Command: edit.PatchLine(r.From, "json", []edit.Op{{Op: "replace", Path: r.Path, Value: name}}),
	}, true
}

// KueueFaults are what Kueue's own objects report that the condition's message names, each with a condition that is bad: of an admission
// check that is not active, its clusters.
func KueueFaults(c *check.Case, message string) []facts.Evidence {
	words := strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,:;[]\"'()", r) })
	var out []facts.Evidence
	for _, k := range c.Objects.Kinds() {
		if !strings.HasSuffix(k.Name(), ".kueue.x-k8s.io") || strings.HasPrefix(k.Name(), "clusterqueues.") {
			continue
		}
		for _, o := range k.List(&c.Objects) {
			if o.GetNamespace() != "" || !slices.Contains(words, o.GetName()) {
				continue
			}
			for _, said := range facts.ConditionsOf(o) {
				if said.Bad() {
					out = append(out, facts.Evidence{Object: facts.RefTo(o).In(), Field: said.Field, Value: strings.TrimSpace(said.Reason + ": " + said.Message)})
				}
			}
		}
	}
	return out
}
