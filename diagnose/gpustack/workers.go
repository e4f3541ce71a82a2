package gpustack

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// Whoever cordons a node on a machine's behalf seldom says so on the node. It stands in an object of theirs that names the node: a Machine
// that is being deleted, a maintenance, a remediation.

// Worker is such an object.
type Worker struct {
	Object *unstructured.Unstructured
	Leaves bool   // the machine is being taken away
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

// workers are those of every node; one that takes the node away comes first.
type workers map[string][]*Worker

var (
	machineKind = regexp.MustCompile(`(?i)machine|node(claim|set)|instance|server|vm$`)
	workKind    = regexp.MustCompile(`(?i)maint|remediat|repair|drain|reboot|quarantin|cordon|upgrad|evict`)
	workOver    = regexp.MustCompile(`(?i)^(complete|completed|done|finished|remediated|cancell?ed|aborted|released)$`)
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
			name := namedNode(u)
			if name == "" && machineKind.MatchString(u.GetKind()) {
				name = byProvider[dialect.Text(u.Object, "spec", "providerID")]
			}
			if name == "" && workKind.MatchString(u.GetKind()) && f.NodeNamed(u.GetName()) != nil {
				name = u.GetName()
			}
			if name == "" {
				continue
			}
			if w := workerOf(u); w != nil {
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

// namedNode is the node that the object refers to.
func namedNode(u *unstructured.Unstructured) string {
	return cmp.Or(
		dialect.Text(u.Object, "spec", "nodeName"), dialect.Text(u.Object, "spec", "nodeRef", "name"), dialect.Text(u.Object, "spec", "node", "name"), dialect.Text(u.Object, "spec", "node"),
		dialect.Text(u.Object, "status", "nodeRef", "name"), dialect.Text(u.Object, "status", "nodeName"),
	)
}

// workerOf reads the object as a tool's work on its node; nil where it does not say so, or is done.
func workerOf(u *unstructured.Unstructured) *Worker {
	w := &Worker{Object: u}
	var worst *facts.Condition
	for _, k := range facts.ConditionsOf(u) {
		if k.Bad() && (worst == nil || worst.Message == "" && k.Message != "") {
			worst = &k
		}
	}
	if worst != nil {
		w.Field, w.Says = worst.Field, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", worst.Type, worst.Status, cmp.Or(worst.Message, worst.Reason)), ": ")
	}
	phase := cmp.Or(dialect.Text(u.Object, "status", "phase"), dialect.Text(u.Object, "status", "state"))
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
	case worst != nil && machineKind.MatchString(u.GetKind()):
		return w
	}
	return nil
}
