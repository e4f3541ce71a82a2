package kubelet

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-dev/berth/fleet/dra"
	"github.com/berth-dev/berth/fleet/gpu"
)

// claimed is what containers have through their pod's ResourceClaims: GPUs by container name.
type claimed map[string][]gpu.Device

// prepareClaims makes the devices of the pod's ResourceClaims ready, as a kubelet does before it
// creates the pod's sandbox. All claims are checked before the first device is given. The error is in
// the words of the event that a kubelet records.
func (w *worker) prepareClaims(ctx context.Context, m *Machine, pod *corev1.Pod) error {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	claims, err := w.k.sources.claims(ctx, pod)
	if err == nil {
		err = driversReady(m, claims)
	}
	if err == nil {
		err = prepareAll(m, pod, claims)
	}
	if err == nil {
		err = w.useDomains(ctx, m, claims)
	}
	if err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	w.claimed, w.claimLimits = share(m, pod, claims)
	record := recordGPUs(pod, func(container string) []gpu.Device { return w.gpusOf(m, container) })
	w.change(func() { w.gpus = record })
	return nil
}

// gpusOf lists the GPUs of a container: from the device plugin, then through claims. Only run may call
// it.
func (w *worker) gpusOf(m *Machine, container string) []gpu.Device {
	return slices.Concat(m.Devices.Held(w.uid, container), w.claimed[container])
}

// podClaim is an allocated ResourceClaim under the name that a pod has for it.
type podClaim struct {
	name string // "": the claim that the scheduler made for the pod's extended resources
	*resourcev1.ResourceClaim
}

func (c podClaim) results() []resourcev1.DeviceRequestAllocationResult {
	return c.Status.Allocation.Devices.Results
}

// claims reads the pod's claims, in the order of its spec. They must be allocated and reserved for the
// pod or its PodGroup. A claim that was meant not to be made is left out.
func (s *sources) claims(ctx context.Context, pod *corev1.Pod) ([]podClaim, error) {
	var all []podClaim
	for _, ref := range claimRefs(pod) {
		name, err := claimName(pod, &ref)
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim, err := s.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("fetch ResourceClaim %s: %w", *name, err)
		}
		if err := usable(pod, &ref, claim); err != nil {
			return nil, err
		}
		all = append(all, podClaim{ref.Name, claim})
	}
	return all, nil
}

// claimRefs are the claims of the pod's spec and, last, the one behind its extended resources.
func claimRefs(pod *corev1.Pod) []corev1.PodResourceClaim {
	s := pod.Status.ExtendedResourceClaimStatus
	if s == nil {
		return pod.Spec.ResourceClaims
	}
	return append(slices.Clone(pod.Spec.ResourceClaims), corev1.PodResourceClaim{ResourceClaimName: &s.ResourceClaimName})
}

// claimName is the name of the claim object; nil: none was made, and none is needed.
func claimName(pod *corev1.Pod, ref *corev1.PodResourceClaim) (*string, error) {
	if ref.ResourceClaimName != nil {
		return ref.ResourceClaimName, nil
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == ref.Name {
			return s.ResourceClaimName, nil
		}
	}
	return nil, fmt.Errorf(`pod "%s/%s": ResourceClaim not created yet`, pod.Namespace, pod.Name)
}

// usable says why the pod may not use the claim; nil: it may, by itself or as one of its PodGroup (DRAWorkloadResourceClaims), as a
// kubelet decides (k8s.io/kubernetes v1.37.1, pkg/kubelet/cm/dra/manager.go).
func usable(pod *corev1.Pod, ref *corev1.PodResourceClaim, claim *resourcev1.ResourceClaim) error {
	if ref.ResourceClaimName == nil {
		if err := resourceclaim.IsForPod(pod, claim, true); err != nil {
			return err
		}
	}
	if !resourceclaim.IsReservedForPod(pod, claim, true) {
		return fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, claim.Name, claim.UID)
	}
	if claim.Status.Allocation == nil {
		return fmt.Errorf("ResourceClaim %s: not allocated", claim.Name)
	}
	return nil
}

// driversReady checks that each claim's drivers are there to prepare it.
func driversReady(m *Machine, claims []podClaim) error {
	ready := map[string]bool{driverOf(m).DriverName(): m.Devices.DRAReady(), dra.DomainDriver: m.Devices.ChannelsReady()}
	for _, claim := range claims {
		for _, r := range claim.results() {
			if !ready[r.Driver] {
				return fmt.Errorf("DRA driver %s is not registered", r.Driver)
			}
		}
	}
	return nil
}

// driverOf is the machine as its DRA driver sees it.
func driverOf(m *Machine) dra.Machine {
	return dra.Machine{Node: m.Name, GPUs: m.Devices.Devices(), Dynamic: m.Devices.DynamicMIG(), Shares: m.Devices.SharesGPUs(), Clique: m.Devices.Clique()}
}

// prepareAll books the claims' devices for the pod. What it booked before an error stays with the pod
// until it is released, as with a kubelet.
func prepareAll(m *Machine, pod *corev1.Pod, claims []podClaim) error {
	machine := driverOf(m)
	for _, claim := range claims {
		_, err := machine.Allocated(claim.results())
		if err == nil {
			own, _ := machine.Allocated(dra.Exclusive(claim.results())) // some of those that were all found
			err = m.Devices.Prepare(pod.UID, claim.UID, own)
		}
		if err != nil {
			return fmt.Errorf("NodePrepareResources failed for ResourceClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// share says which container gets which of the claims' devices, and how much of those that are shared.
func share(m *Machine, pod *corev1.Pod, claims []podClaim) (claimed, map[string]limits) {
	machine := driverOf(m)
	out, shares := make(claimed), make(map[string]limits)
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			results := resultsFor(pod, &cs[i], claims)
			got, _ := machine.Allocated(results) // prepareAll has found them all
			if len(got) > 0 {
				out[cs[i].Name] = got
			}
			for uuid, l := range machine.Limits(results) {
				if shares[cs[i].Name] == nil {
					shares[cs[i].Name] = limits{}
				}
				shares[cs[i].Name][uuid] = limit{l.Memory, l.Cores}
			}
		}
	}
	return out, shares
}

// resultsFor is what was allocated for a container: all of the claims it refers to, or what belongs to
// the one request that it names.
func resultsFor(pod *corev1.Pod, c *corev1.Container, claims []podClaim) []resourcev1.DeviceRequestAllocationResult {
	var all []resourcev1.DeviceRequestAllocationResult
	for _, ref := range containerRefs(pod, c) {
		for _, claim := range claims {
			if claim.name == ref.Name {
				all = append(all, dra.OfRequest(claim.results(), ref.Request)...)
			}
		}
	}
	return all
}

// containerRefs are the container's references to claims. What it asks for as an extended resource is
// mapped to requests of the claim behind those.
func containerRefs(pod *corev1.Pod, c *corev1.Container) []corev1.ResourceClaim {
	s := pod.Status.ExtendedResourceClaimStatus
	if s == nil {
		return c.Resources.Claims
	}
	refs := slices.Clone(c.Resources.Claims)
	for _, m := range s.RequestMappings {
		if m.ContainerName == c.Name {
			refs = append(refs, corev1.ResourceClaim{Request: m.RequestName})
		}
	}
	return refs
}
