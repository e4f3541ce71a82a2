package supply

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

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
		"The capacity reservation cr-0a1b2c3d4e5f67890 was cancelled on 2026-11-14":       CloudReservedOver,
		"RESERVATION_NOT_FOUND":                                                 CloudReservedOver,
		"RESERVATION_NOT_READY":                                                 CloudReservedEarly,
		"RESERVATION_INCOMPATIBLE":                                              CloudReservedType,
		"The Capacity Block cr-0a1b2c3d4e5f67890 is not yet active":             CloudReservedEarly,
		"reservation block is in a different Availability Zone than the subnet": CloudReservedZone,
		"instance type p5.48xlarge is not compatible with capacity reservation cr-0a1b2c3d4e5f67890 in zone a":   CloudReservedType,
		"reservation projects/p/zones/z/reservations/expired: 16 of 16 VMs in use":                               CloudReserved,
		"UnfulfillableCapacity: capacity reservation cr-0a1b2c3d4e5f67890 has expired":                           CloudReservedOver,
		"Out of capacity in capacity reservation ocid1.capacityreservation.oc1.iad.x":                            CloudReserved,
		"You are not authorized to use capacity reservation cr-0a1b2c3d4e5f67890":                                cloudOther,
		"InsufficientInstanceCapacity: none left. Consider On-Demand Capacity Reservations, which never expire.": CloudNoCapacity,
		"timeout":                           CloudNoMachine,
		"InsufficientFreeAddressesInSubnet": cloudOther,
		"PERMISSIONS_ERROR":                 cloudOther,
		"OperationNotAllowed":               cloudOther,
		"regional on-demand vCPU quota limit for subscription has been reached":                               CloudNoQuota,
		"subscription level ondemand vCPU quota for Standard_ND96isr_H100_v5 has been reached":                CloudNoQuota,
		"LimitExceeded: The following service limits were exceeded: gpu-h100-count":                           CloudNoQuota,
		"RequestLimitExceeded: Request limit exceeded":                                                        cloudOther,
		"There are not enough free addresses in subnet subnet-1 to satisfy the requested number of instances": cloudOther,
		"User is not authorized to perform ec2:RunInstances on resource instance":                             cloudOther,
		"The image id [ami-1] does not exist":                                                                 cloudOther,
		"server limit reached (resource_limit_exceeded)":                                                      CloudNoQuota,
		"No valid host was found. There are not enough hosts available.":                                      CloudNoCapacity,
		"error during placement (resource_unavailable)":                                                       CloudNoCapacity,
		"InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state":                           cloudOther,
		"The resource 'projects/p/global/images/gke-x' was not found":                                         cloudOther,
		"Out of host capacity.": CloudNoCapacity,
		"OperationDenied.NoStock: The resource is out of stock in the specified zone":                  CloudNoCapacity,
		"the requested SKU is unavailable for instance type Standard_ND96isr_H100_v5 in zone eastus-2": CloudNoCapacity,
		"unable to allocate resources in the selected zone (eastus-1)":                                 CloudNoCapacity,
		"placeholder-cannot-be-fulfilled":                                                              CloudNoCapacity,
		"AWS cannot provision any more instances for this node group":                                  CloudNoCapacity,
		"No more nodes of this instance type are available":                                            CloudNoCapacity,
		"": cloudOther,
	} {
		if got, code := cloudFaultOf(text); got != want || got != cloudOther && !strings.Contains(text, code) {
			t.Errorf("cloudFaultOf(%q) = %q, %q, want %q", text, got, code, want)
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
		if got := owns((&clusterautoscaler.Group{Name: c.group}), n); got != c.want {
			t.Errorf("group %s owns node %s of pool %q: %v", c.group, c.node, c.pool, got)
		}
	}
}

func FuzzDecodeProvisioners(f *testing.F) {
	f.Add("pod didn't trigger scale-up: 1 max node group size reached, 2 node(s) had untolerated taint(s)")
	f.Add("pod triggered scale-up: [{a 1->2 (max: 4)}]")
	f.Add(`Failed to schedule pod, incompatible with nodepool "a", did not tolerate a=b:NoSchedule; x (NodePool=b)`)
	f.Add("Node scale up in zones a failed: GCE quota exceeded")
	f.Fuzz(func(t *testing.T, message string) {
		if w, ok := clusterautoscaler.ParseMessage(message); ok {
			w.Unsuited()
			for _, r := range w.Reasons {
				if r.Nodes < 0 || r.Text == "" {
					t.Errorf("%q has reason %v", message, r)
				}
			}
		}
		w, ok := karpenter.ParseMessage(message)
		w.Overhead("a", "nvidia.com/gpu")
		if ok && w.Claim == "" && len(w.Parts) == 0 {
			t.Errorf("%q says nothing and is taken for a word", message)
		}
		fault, code := cloudFaultOf(message)
		if (fault == cloudOther) != (code == "") || !strings.Contains(message, code) {
			t.Errorf("cloudFaultOf(%q) = %q, %q", message, fault, code)
		}
		CloudText(CloudSaid(code, message))
	})
}
