package karpenter

import (
	"strings"
	"testing"
)

func TestDecodeKarpenter(t *testing.T) {
	for _, message := range []string{
		`Failed to schedule pod, incompatible with nodepool "a", daemonset overhead={"cpu":"1"}, incompatible requirements, label "x" does not have known values; all available instance types exceed limits for nodepool: "b"`,
		`Failed to schedule pod, incompatible requirements, label "x" does not have known values (NodePool=a); all available instance types exceed limits for nodepool (NodePool=b)`,
	} {
		w, ok := ParseMessage(message)
		if !ok || len(w.Parts) != 2 {
			t.Fatalf("decodeKarpenter(%q) = %v, %v", message, w, ok)
		}
		if !w.About("b", AtLimit...) || w.About("a", AtLimit...) || !w.About("a", Incompatible...) {
			t.Errorf("of %q the parts are %+v", message, w.Parts)
		}
	}
	if w, ok := ParseMessage("Pod should schedule on: nodeclaim/gpu-x7k2p, node/ip-10-0-0-1"); !ok || w.Claim != "gpu-x7k2p" {
		t.Errorf("nomination = %v, %v", w, ok)
	}
	for _, other := range []string{"Pod should schedule on: node/ip-10-0-0-1", "0/3 nodes are available: 3 Insufficient cpu.", ""} {
		if w, ok := ParseMessage(other); ok {
			t.Errorf("decodeKarpenter(%q) = %v", other, w)
		}
	}
}

func TestKarpenterRule(t *testing.T) {
	for _, c := range []struct {
		operator, values, value string
		want                    bool
	}{
		{"In", "a b", "b", true}, {"In", "a b", "c", false}, {"NotIn", "a", "a", false}, {"NotIn", "a", "b", true},
		{"Exists", "", "x", true}, {"DoesNotExist", "", "x", false},
		{"Gt", "4", "8", true}, {"Gt", "8", "8", false}, {"Gte", "8", "8", true}, {"Lt", "8", "7", true}, {"Lte", "8", "9", false}, {"Gt", "4", "x", false},
	} {
		r := Rule{Operator: c.operator, Values: strings.Fields(c.values)}
		if got := r.allows(c.value); got != c.want {
			t.Errorf("%s [%s] allows %s: %v", c.operator, c.values, c.value, got)
		}
	}
}
