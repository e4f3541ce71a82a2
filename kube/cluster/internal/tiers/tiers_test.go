package tiers

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
)

type said = map[string]string

// TestChart finds the level that stands for a tier: one that divides nodes alike, else one that is free, in the order of tiers.
func TestChart(t *testing.T) {
	levels := []engine.Level{{Name: "zone", Label: "zone"}, {Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}
	nodes := func(labels ...map[string]string) (out []*corev1.Node) {
		for i, l := range labels {
			out = append(out, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: l}})
		}
		return out
	}
	two := [][]dialect.Tier{{dialect.ByLabel("wide"), dialect.ByLabel("near"), dialect.ByLabel(hostname)}}
	for name, c := range map[string]struct {
		topologies [][]dialect.Tier
		nodes      []*corev1.Node
		level      map[string]string
		labels     map[string]map[string]string
	}{
		"free": {two, nodes(said{"wide": "a", "near": "1"}, said{"wide": "a", "near": "2"}, said{"wide": "b"}), said{"wide": "block", "near": "rack"},
			map[string]map[string]string{"n0": {"block": "a", "rack": "1"}, "n1": {"block": "a", "rack": "2"}, "n2": {"block": "b"}}},
		"alike": {two, nodes(said{"wide": "a", "near": "1", "rack": "x"}, said{"wide": "a", "near": "2", "rack": "y"}), said{"wide": "block", "near": "rack"},
			map[string]map[string]string{"n0": {"block": "a"}, "n1": {"block": "a"}}},
		"the labels differ": {two, nodes(said{"wide": "a", "near": "1", "rack": "x"}, said{"wide": "a", "near": "1", "rack": "y"}), said{"wide": "zone", "near": "block"},
			map[string]map[string]string{"n0": {"zone": "a", "block": "1"}, "n1": {"zone": "a", "block": "1"}}},
		"too many": {[][]dialect.Tier{{dialect.ByLabel("a"), dialect.ByLabel("b"), dialect.ByLabel("c"), dialect.ByLabel("d")}}, nodes(said{"a": "1", "d": "2"}),
			said{"a": "", "b": "zone", "c": "block", "d": "rack"}, map[string]map[string]string{"n0": {"rack": "2"}}},
		"it is one already": {[][]dialect.Tier{{dialect.ByLabel("block"), dialect.ByLabel("near")}}, nodes(said{"block": "a", "near": "1"}), said{"near": "rack"},
			map[string]map[string]string{"n0": {"rack": "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			level, labels := chart(levels, c.topologies, c.nodes)
			if diff := cmp.Diff(c.level, level); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.labels, labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
