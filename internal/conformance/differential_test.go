package conformance

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

const (
	rounds       = 30 // of as many fleets as rapid makes checks
	podsPerFleet = 10 // asked for one by one
)

// Berth and the stock scheduler have the same feasible nodes for every pod that Berth decides about. Each filter
// must have refused its share of pairs, and about half of the pairs must be feasible: else the test says nothing.
func TestFeasibleNodesAsStock(t *testing.T) {
	s := everyVolume()
	k := newStock(t, s.objects()...)
	var seen tally
	inRounds(t, rounds, func(t *rapid.T) {
		f := anyFleet(t)
		k.show(f)
		b := newBerth(t, f, s)
		for i := range podsPerFleet {
			p := anyPod(t, fmt.Sprintf("pod-%d", i), s)
			compare(t, f, p, k.judge(t, f.nodes, p), b.feasible(t, p), &seen)
		}
	})
	t.Log(seen.String())
	seen.check(t)
}

func compare(t *rapid.T, f fleet, p *corev1.Pod, stock map[string]string, berth map[string]bool, seen *tally) {
	seen.pods++
	for _, n := range f.nodes {
		by := stock[n.Name]
		seen.note(by)
		if (by == "") != berth[n.Name] {
			t.Fatalf("feasible to berth: %v; refused by the stock scheduler's filter: %q\n%s", berth[n.Name], by, f.text(n, p))
		}
	}
}

// text is the pod and the node, and who has room on the node, as YAML.
func (f fleet) text(n *corev1.Node, p *corev1.Pod) string {
	docs := []any{p, map[string]any{"name": n.Name, "labels": n.Labels, "spec": n.Spec, "allocatable": n.Status.Allocatable, "features": n.Status.DeclaredFeatures}}
	for _, b := range f.bound {
		if b.Spec.NodeName == n.Name {
			docs = append(docs, b)
		}
	}
	for _, b := range f.nominated {
		if b.Status.NominatedNodeName == n.Name {
			docs = append(docs, b)
		}
	}
	var out strings.Builder
	for _, d := range docs {
		data, err := yaml.Marshal(d)
		if err != nil {
			return err.Error()
		}
		out.WriteString("---\n" + string(data))
	}
	return out.String()
}

// inRounds runs the property many times over: rapid's own number of checks is for slow ones. Under -short once. With
// a seed given, every round has one of its own.
func inRounds(t *testing.T, rounds int, property func(*rapid.T)) {
	if testing.Short() {
		rounds = 1
	}
	given := flag.Lookup("rapid.seed").Value.String()
	defer flag.Set("rapid.seed", given)
	seed, err := strconv.ParseUint(given, 10, 64)
	for i := range rounds {
		if err == nil && seed > 0 {
			flag.Set("rapid.seed", strconv.FormatUint(seed+uint64(i), 10))
		}
		rapid.Check(t, property)
	}
}
