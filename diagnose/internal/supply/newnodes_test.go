package supply

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecodeAutoscaler(t *testing.T) {
	want := []*AutoscalerGroup{{Name: "a/gke-main-h100-grp", Ready: 2, Registered: 3, LongUnregistered: 1, Target: 4, Min: 1, Max: 9, ScaleUp: "Backoff"}}
	old := `Cluster-autoscaler status at 2026-11-15 12:00:00 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=9 unready=0 notStarted=0 longNotStarted=0 registered=9 longUnregistered=0)
  ScaleUp:     NoActivity (ready=9 registered=9)

NodeGroups:
  Name:        a/gke-main-h100-grp
  Health:      Healthy (ready=2 unready=1 (resourceUnready=1) notStarted=0 registered=3 longUnregistered=1 cloudProviderTarget=4 (minSize=1, maxSize=9))
               LastProbeTime:      2026-11-15 11:59:50 +0000 UTC m=+571.7
  ScaleUp:     Backoff (ready=2 cloudProviderTarget=4)
`
	yaml := `time: 2026-11-15 12:00:00.1 +0000 UTC
autoscalerStatus: Running
nodeGroups:
- name: a/gke-main-h100-grp
  health:
    nodeCounts: {registered: {total: 3, ready: 2, unready: {total: 1, resourceUnready: 1}}, longUnregistered: 1, unregistered: 0}
    cloudProviderTarget: 4
    minSize: 1
    maxSize: 9
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: "Quota H100 exceeded"}
`
	same := cmpopts.IgnoreUnexported(AutoscalerGroup{})
	if diff := cmp.Diff(want, decodeAutoscaler(old), same); diff != "" {
		t.Errorf("old words (-want +got):\n%s", diff)
	}
	want[0].ErrorCode, want[0].ErrorMessage = "QUOTA_EXCEEDED", "Quota H100 exceeded"
	if diff := cmp.Diff(want, decodeAutoscaler(yaml), same); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
	for _, none := range []string{"", "Initializing", "autoscalerStatus: Initializing\n", "{{"} {
		if got := decodeAutoscaler(none); len(got) != 0 {
			t.Errorf("decodeAutoscaler(%q) = %d groups, want none", none, len(got))
		}
	}
}

func TestDecodeAutoscalerWord(t *testing.T) {
	w, ok := decodeAutoscalerWord("pod triggered scale-up: [{a/b-grp 1->3 (max: 4)} {c 0->1 (max: 2)}]")
	if !ok || len(w.Grows) != 2 || w.Grows[0] != (autoscalerGrowth{"a/b-grp", 1, 3}) || w.Grows[1] != (autoscalerGrowth{"c", 0, 1}) {
		t.Errorf("grows = %v, %v", w.Grows, ok)
	}
	w, ok = decodeAutoscalerWord(`pod didn't trigger scale-up: 2 max node group size reached, 1 node(s) had untolerated taint(s), 3 exceeded quota: "q", resources: cpu, memory`)
	if !ok || w.Refused("max node group size reached") != 2 || w.Refused("untolerated taint") != 1 || w.Refused("exceeded quota") != 3 || w.Refused("in backoff") != 0 {
		t.Errorf("reasons = %v, %v", w.reasons, ok)
	}
	if w.Unsuited() {
		t.Error("a group that is full is taken for one that does not match")
	}
	if w, ok = decodeAutoscalerWord("pod didn't trigger scale-up (it wouldn't fit if a new node is added)"); !ok || len(w.reasons) != 0 {
		t.Errorf("the words of old releases = %v, %v", w, ok)
	}
	if _, ok = decodeAutoscalerWord("Successfully assigned a/b to c"); ok {
		t.Error("the scheduler's words are taken for the autoscaler's")
	}
}

func TestDecodeKarpenter(t *testing.T) {
	for _, message := range []string{
		`Failed to schedule pod, incompatible with nodepool "a", daemonset overhead={"cpu":"1"}, incompatible requirements, label "x" does not have known values; all available instance types exceed limits for nodepool: "b"`,
		`Failed to schedule pod, incompatible requirements, label "x" does not have known values (NodePool=a); all available instance types exceed limits for nodepool (NodePool=b)`,
	} {
		w, ok := decodeKarpenter(message)
		if !ok || len(w.Parts) != 2 {
			t.Fatalf("decodeKarpenter(%q) = %v, %v", message, w, ok)
		}
		if !w.About("b", KarpenterAtLimit...) || w.About("a", KarpenterAtLimit...) || !w.About("a", KarpenterUnsuits...) {
			t.Errorf("of %q the parts are %+v", message, w.Parts)
		}
	}
	if w, ok := decodeKarpenter("Pod should schedule on: nodeclaim/gpu-x7k2p, node/ip-10-0-0-1"); !ok || w.Claim != "gpu-x7k2p" {
		t.Errorf("nomination = %v, %v", w, ok)
	}
	for _, other := range []string{"Pod should schedule on: node/ip-10-0-0-1", "0/3 nodes are available: 3 Insufficient cpu.", ""} {
		if w, ok := decodeKarpenter(other); ok {
			t.Errorf("decodeKarpenter(%q) = %v", other, w)
		}
	}
}

func TestCloudFaultOf(t *testing.T) {
	for text, want := range map[string]cloudFault{
		"with fleet error(s), InsufficientInstanceCapacity: We currently do not have": CloudNoCapacity,
		"UnfulfillableCapacity: no":                  CloudNoCapacity,
		"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS":  CloudNoCapacity,
		"ZonalAllocationFailed":                      CloudNoCapacity,
		"GCE out of resources":                       CloudNoCapacity,
		"VcpuLimitExceeded: You have requested more": CloudNoQuota,
		"VCPULimitExceeded: x":                       CloudNoQuota,
		"QUOTA_EXCEEDED":                             CloudNoQuota,
		"QuotaExceeded":                              CloudNoQuota,
		"Operation could not be completed as it results in exceeding approved standardNC Cores quota": CloudNoQuota,
		"MaxSpotInstanceCountExceeded": CloudNoQuota,
		"ReservationCapacityExceeded: The requested reservation does not have sufficient": CloudReserved,
		"timeout":                           CloudNoMachine,
		"InsufficientFreeAddressesInSubnet": cloudOther,
		"PERMISSIONS_ERROR":                 cloudOther,
		"OperationNotAllowed":               cloudOther,
		"":                                  cloudOther,
	} {
		if got, code := cloudFaultOf(text); got != want || got != cloudOther && !strings.Contains(text, code) {
			t.Errorf("cloudFaultOf(%q) = %q, %q, want %q", text, got, code, want)
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
		r := karpenterRule{operator: c.operator, values: strings.Fields(c.values)}
		if got := r.allows(c.value); got != c.want {
			t.Errorf("%s [%s] allows %s: %v", c.operator, c.values, c.value, got)
		}
	}
}

func TestAutoscalerOwns(t *testing.T) {
	for _, c := range []struct {
		group, node, pool string
		want              bool
	}{
		{"aks-gpu-98036146-vmss", "aks-gpu-98036146-vmss000002", "", true},
		{"https://compute/zones/a/instanceGroups/gke-main-h100-1a2b-grp", "gke-main-h100-1a2b-x7k2", "", true},
		{"eks-h100-5ec4e8f0", "ip-10-0-0-1", "h100", true},
		{"eks-h100-5ec4e8f0", "ip-10-0-0-1", "h10", false},
		{"eks-h100-5ec4e8f0", "ip-10-0-0-1", "", false},
		{"gpu", "gpuless-1", "", false},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node}}
		if c.pool != "" {
			n.Labels = map[string]string{"eks.amazonaws.com/nodegroup": c.pool}
		}
		if got := (&AutoscalerGroup{Name: c.group}).owns(n); got != c.want {
			t.Errorf("group %s owns node %s of pool %q: %v", c.group, c.node, c.pool, got)
		}
	}
}

func FuzzDecodeAutoscaler(f *testing.F) {
	f.Add("nodeGroups:\n- name: a\n  health: {maxSize: 3}\n")
	f.Add("NodeGroups:\n  Name: a\n  Health: Healthy (ready=1 (minSize=1, maxSize=3))\n  ScaleUp: Backoff (ready=1)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, g := range decodeAutoscaler(text) {
			if g.Name == "" {
				t.Errorf("%q has a group without a name", text)
			}
			g.Short()
		}
	})
}

func FuzzDecodeProvisioners(f *testing.F) {
	f.Add("pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) had untolerated taint(s)")
	f.Add("pod triggered scale-up: [{a 1->2 (max: 4)}]")
	f.Add(`Failed to schedule pod, incompatible with nodepool "a", did not tolerate a=b:NoSchedule; x (NodePool=b)`)
	f.Add("Node scale up in zones a failed: GCE quota exceeded")
	f.Fuzz(func(t *testing.T, message string) {
		if w, ok := decodeAutoscalerWord(message); ok {
			w.Unsuited()
			for _, r := range w.reasons {
				if r.Nodes < 0 || r.Text == "" {
					t.Errorf("%q has reason %v", message, r)
				}
			}
		}
		if w, ok := decodeKarpenter(message); ok && w.Claim == "" && len(w.Parts) == 0 {
			t.Errorf("%q says nothing and is taken for a word", message)
		}
		fault, code := cloudFaultOf(message)
		if (fault == cloudOther) != (code == "") || !strings.Contains(message, code) {
			t.Errorf("cloudFaultOf(%q) = %q, %q", message, fault, code)
		}
		CloudText(CloudSaid(code, message))
	})
}
