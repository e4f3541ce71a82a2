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

func TestUnmet(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{`Failed to schedule pod, incompatible with nodepool "a", daemonset overhead={"cpu":"1"}, no instance type met all requirements`, "no instance type met all requirements"},
		{`Failed to schedule pod, no instance type has enough resources (NodePool=a); all available instance types exceed limits for nodepool (NodePool=b)`, "no instance type has enough resources"},
		{`Failed to schedule pod, no instance type has enough resources (NodePool=b); all available instance types exceed limits for nodepool (NodePool=a)`, ""},
		{`Failed to schedule pod, no instance type which met the scheduling requirements and had enough resources, had a required offering (NodePool=a)`, ""},
		{`Failed to schedule pod, all available instance types exceed limits for nodepool: "a"`, ""},
	} {
		w, _ := ParseMessage(c.message)
		if got := w.Unmet("a"); got != c.want {
			t.Errorf("Unmet of %q = %q, want %q", c.message, got, c.want)
		}
	}
}

func TestOverhead(t *testing.T) {
	const message = `Failed to schedule pod, incompatible with nodepool "a", daemonset overhead={"cpu":"191250m","nvidia.com/gpu":"8","pods":"7"}, no instance type satisfied resources; incompatible with nodepool "b", daemonset overhead={"cpu":"1"}, did not tolerate taint; incompatible with nodepool "c", daemonset overhead={}`
	w, _ := ParseMessage(message)
	for pool, want := range map[string]string{"a": "8", "b": "", "c": "", "other": ""} {
		if got := w.Overhead(pool, "nvidia.com/gpu"); got != want {
			t.Errorf("of pool %s %q are taken, want %q", pool, got, want)
		}
	}
	if got := (*Message)(nil).Overhead("a", "nvidia.com/gpu"); got != "" {
		t.Errorf("who says nothing says %q", got)
	}
}

func TestMachinesIn(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"InsufficientInstanceCapacity: We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you requested (us-east-1a).", "p5.48xlarge"},
		{"SkuNotAvailable: Standard_ND96isr_H100_v5 is currently not available in location 'eastus'", "Standard_ND96isr_H100_v5"},
		{"ZONE_RESOURCE_POOL_EXHAUSTED: no a3-highgpu-8g or n2-standard-8 in us-central1-a", "a3-highgpu-8g n2-standard-8"},
		{"with fleet error(s), UnfulfillableCapacity: in us-east-1a, karpenter.sh/v1, 10.0.0.1", ""},
	} {
		if got := strings.Join(MachinesIn(c.text), " "); got != c.want {
			t.Errorf("MachinesIn(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	for machine, want := range map[string]bool{"p5.48xlarge": true, "g6.xlarge": true, "m6i.4xlarge": false, "Standard_ND96isr_H100_v5": true, "Standard_D4s_v5": false, "a3-highgpu-8g": true, "n2-standard-8": false} {
		if HasGPU(machine) != want {
			t.Errorf("HasGPU(%s) = %v", machine, !want)
		}
	}
}
