package workload

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

const (
	domainGroup  = "resource.nvidia.com"
	domainKind   = "ComputeDomain"
	channelClass = "compute-domain-default-channel.nvidia.com"
)

// IsDomain says whether the object is a ComputeDomain of NVIDIA's driver, which has no pods of its own.
func IsDomain(o facts.Object) bool {
	u, ok := o.(*unstructured.Unstructured)
	return ok && u.GetKind() == domainKind && u.GroupVersionKind().Group == domainGroup
}

// ChannelTemplate is what the driver's controller makes of a ComputeDomain: the template under the name that the domain says, of which each
// pod of the domain has a claim of a channel on its node (NVIDIA/k8s-dra-driver-gpu 22407113, cmd/compute-domain-controller). Nil: the object is
// none, or names no template.
func ChannelTemplate(o facts.Object, uid types.UID) *resourcev1.ResourceClaimTemplate {
	if !IsDomain(o) {
		return nil
	}
	name := dialect.Text(o.(*unstructured.Unstructured).Object, "spec", "channel", "resourceClaimTemplate", "name")
	if name == "" {
		return nil
	}
	t := &resourcev1.ResourceClaimTemplate{}
	t.Namespace, t.Name, t.UID = o.GetNamespace(), name, uid
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "channel", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: channelClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}
	return t
}
