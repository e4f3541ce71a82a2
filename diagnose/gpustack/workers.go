package gpustack

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// Whoever cordons a node on a machine's behalf seldom says so on the node. It stands in an object of theirs that names the node: a Machine
// that is being deleted, a maintenance, a remediation.

// Worker is such an object.
type Worker struct {
	Object *unstructured.Unstructured
	Leaves bool   // the machine is being taken away
	Fault  bool   // it reports one, and is not only work that is planned
	Says   string // what the object says of it
	Field  string // where
}

// Ref names the object.
func (w *Worker) Ref() facts.Ref { return facts.RefTo(w.Object) }

// WorkerOn is the tool that keeps a cordoned node closed; nil where none says so.
func WorkerOn(f *facts.Facts, n *corev1.Node) *Worker {
	if !n.Spec.Unschedulable {
		return nil
	}
	all := facts.Derive(f, workersByNode)[n.Name]
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// ReportsOn are the objects of others that say something of the node, cordoned or not: work on it, or a fault of it.
func ReportsOn(f *facts.Facts, n *corev1.Node) []*Worker {
	return facts.Derive(f, workersByNode)[n.Name]
}

// workers are those of every node; one that takes the node away comes first.
type workers map[string][]*Worker

var (
	machineKind = regexp.MustCompile(`(?i)machine|node(claim|set)|instance|server|vm$`)
	workKind    = regexp.MustCompile(`(?i)maint|remediat|repair|drain|reboot|quarantin|cordon|upgrad|evict`)
	workOver    = regexp.MustCompile(`(?i)^(complete|completed|done|finished|remediated|cancell?ed|aborted|released|expired|inactive|scheduled|planned|upcoming)$`)
	// hardwareKind is in the kinds of objects that are about a node itself, and not about what runs there.
	hardwareKind = regexp.MustCompile(`(?i)node|host|hardware|gpu|accelerator|device|fabric|health|firmware|diagnos|bmc|nic|rack`)
)

func workersByNode(f *facts.Facts) workers {
	out, byProvider := make(workers), make(map[string]string)
	for _, n := range f.Nodes {
		if n.Spec.ProviderID != "" {
			byProvider[n.Spec.ProviderID] = n.Name
		}
	}
	for _, kind := range SortedKeys(kindsOf(f)) {
		for _, u := range f.Foreign[kind] {
			if group := u.GroupVersionKind().Group; group == "berth.dev" || strings.HasSuffix(group, ".berth.dev") {
				continue
			}
			w := workerOf(u)
			if w == nil {
				continue
			}
			names := nodesNamed(f, u)
			if len(names) == 0 && machineKind.MatchString(u.GetKind()) {
				names = append(names, byProvider[dialect.Text(u.Object, "spec", "providerID")])
			}
			if len(names) == 0 && f.NodeNamed(u.GetName()) != nil {
				names = append(names, u.GetName())
			}
			for _, name := range names {
				out[name] = append(out[name], w)
			}
		}
	}
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b *Worker) int {
			switch {
			case a.Leaves == b.Leaves:
				return 0
			case a.Leaves:
				return -1
			}
			return 1
		})
	}
	return out
}

func kindsOf(f *facts.Facts) map[string]string {
	out := make(map[string]string, len(f.Foreign))
	for kind := range f.Foreign {
		out[kind] = kind
	}
	return out
}

// nodeField is the name of a field that holds a node's name, several, a reference to one, or a selector of them.
var nodeField = regexp.MustCompile(`^(target)?([Nn]odes?|[Hh]osts?)(Names?|Refs?|Selector)?$`)

// nodesNamed are the nodes that the object refers to. What is done to nodes may select them by their labels; so do many objects that only say where
// something runs.
func nodesNamed(f *facts.Facts, u *unstructured.Unstructured) []string {
	var out []string
	add := func(names ...string) {
		for _, name := range names {
			if name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	for _, part := range []string{"spec", "status"} {
		tree, _, _ := unstructured.NestedMap(u.Object, part)
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			if !nodeField.MatchString(key) {
				continue
			}
			switch at := tree[key].(type) {
			case string:
				add(at)
			case []any:
				for _, item := range at {
					if name, ok := item.(string); ok {
						add(name)
					} else if m, ok := item.(map[string]any); ok {
						add(cmp.Or(dialect.Text(m, "name"), dialect.Text(m, "nodeName")))
					}
				}
			case map[string]any:
				if add(dialect.Text(at, "name")); len(out) == 0 && part == "spec" && workKind.MatchString(u.GetKind()) && workNow.MatchString(phaseOf(u)) {
					add(selected(f, at)...)
				}
			}
		}
	}
	return out
}

// selected are the names of the nodes that have the labels: a selector with matchLabels alone, or plain labels.
func selected(f *facts.Facts, selector map[string]any) (out []string) {
	if inner, ok := selector["matchLabels"].(map[string]any); ok && len(selector) == 1 {
		selector = inner
	}
	want := labels.Set{}
	for key := range selector {
		value, ok := selector[key].(string)
		if !ok {
			return nil
		}
		want[key] = value
	}
	for _, n := range f.Nodes {
		if len(want) > 0 && labels.SelectorFromSet(want).Matches(labels.Set(n.Labels)) {
			out = append(out, n.Name)
		}
	}
	return out
}

func phaseOf(u *unstructured.Unstructured) string {
	return cmp.Or(dialect.Text(u.Object, "status", "phase"), dialect.Text(u.Object, "status", "state"))
}

// workerOf reads the object as a tool's work on its node, or its report of it; nil where it does not say so, or is done.
func workerOf(u *unstructured.Unstructured) *Worker {
	w := &Worker{Object: u}
	var worst *facts.Condition
	for _, k := range facts.ConditionsOf(u) {
		if k.Bad() && (worst == nil || worst.Message == "" && k.Message != "") {
			worst = &k
		}
	}
	if worst != nil {
		w.Fault = true
		w.Field, w.Says = worst.Field, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", worst.Type, worst.Status, cmp.Or(worst.Message, worst.Reason)), ": ")
	}
	phase := phaseOf(u)
	switch {
	case u.GetDeletionTimestamp() != nil && machineKind.MatchString(u.GetKind()):
		w.Leaves = true
		if w.Says == "" {
			w.Field, w.Says = "metadata.deletionTimestamp", "it is being deleted"
		}
		return w
	case u.GetDeletionTimestamp() != nil || workOver.MatchString(phase):
		return nil
	case workKind.MatchString(u.GetKind()):
		if w.Says == "" {
			w.Field, w.Says = "status.phase", cmp.Or(phase, "it is there")
		}
		return w
	case worst != nil && (machineKind.MatchString(u.GetKind()) || hardwareKind.MatchString(u.GetKind())):
		return w
	}
	return nil
}
