package convert

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ExtendedClaim is the resource claim that stands for the pod's requests for extended resources which device classes have, as the
// stock scheduler would make it, and which container has which of its requests. class finds the class that has a resource, nil for
// none. The claim is nil where the pod requests no such resource.
//
// Containers that run together have a request each. One that runs before them may have the devices of those that come after it, and
// what they are short of it shares with others of its kind: the largest of such requests is made.
func ExtendedClaim(p *corev1.Pod, class func(resource string) *resourcev1.DeviceClass) (*resourcev1.ResourceClaim, []corev1.ContainerExtendedResourceRequest) {
	e := extendedClaim{inits: len(p.Spec.InitContainers), containers: slices.Concat(p.Spec.InitContainers, p.Spec.Containers)}
	for _, resource := range e.resources() {
		if c := class(resource); c != nil {
			e.add(resource, c.Name)
		}
	}
	if len(e.requests) == 0 {
		return nil, nil
	}
	slices.SortFunc(e.requests, func(a, b resourcev1.DeviceRequest) int { return strings.Compare(a.Name, b.Name) })
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: extendedName(p), GenerateName: p.Name + "-extended-resources-",
			Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: e.requests}},
	}
	return claim, e.mappings
}

// extendedName is the stock scheduler's for such claims, with an end that follows from the pod in place of one that the API server
// makes up.
func extendedName(p *corev1.Pod) string {
	const middle, end = "-extended-resources-", 8
	sum := sha256.Sum256([]byte(p.UID))
	name := p.Name[:min(len(p.Name), validation.DNS1123SubdomainMaxLength-len(middle)-end)]
	return fmt.Sprintf("%s%s%x", strings.TrimRight(name, "-."), middle, sum[:end/2])
}

// ExtendedFor says whether the claim stands for a pod's extended resources, and for which pod.
func ExtendedFor(c *resourcev1.ResourceClaim) (pod metav1.OwnerReference, ok bool) {
	owner := metav1.GetControllerOfNoCopy(c)
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" {
		return metav1.OwnerReference{}, false
	}
	return *owner, true
}

type extendedClaim struct {
	containers []corev1.Container // those of init first
	inits      int
	requests   []resourcev1.DeviceRequest
	mappings   []corev1.ContainerExtendedResourceRequest
}

// resources are those with a domain that containers request, sorted.
func (e *extendedClaim) resources() []string {
	set := make(map[string]bool)
	for i := range e.containers {
		for name := range e.containers[i].Resources.Requests {
			if strings.Contains(string(name), "/") {
				set[string(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// ends says whether the container has ended before those after it begin.
func (e *extendedClaim) ends(i int) bool {
	r := e.containers[i].RestartPolicy
	return i < e.inits && (r == nil || *r != corev1.ContainerRestartPolicyAlways)
}

// add enters the requests for one resource.
func (e *extendedClaim) add(resource, class string) {
	lasting := make([]*resourcev1.DeviceRequest, len(e.containers))
	var passing *resourcev1.DeviceRequest
	var late []corev1.ContainerExtendedResourceRequest // of containers that end
	for i := range e.containers {
		if e.ends(i) {
			continue
		}
		if n := e.wants(i, resource); n > 0 {
			lasting[i] = e.request(i, resource, class, n)
			e.mappings = append(e.mappings, e.mapping(i, resource, lasting[i].Name))
			e.requests = append(e.requests, *lasting[i])
		}
	}
	var own []int // positions in late of those under the request that such containers share
	for i := range e.containers {
		short := e.wants(i, resource)
		if !e.ends(i) || short == 0 {
			continue
		}
		for _, r := range lasting[i:] {
			if r != nil && short > 0 {
				late = append(late, e.mapping(i, resource, r.Name))
				short -= r.Exactly.Count
			}
		}
		if short > 0 {
			r := e.request(i, resource, class, short)
			if passing == nil || r.Exactly.Count > passing.Exactly.Count {
				passing = r
			}
			own = append(own, len(late))
			late = append(late, e.mapping(i, resource, ""))
		}
	}
	for _, k := range own {
		late[k].RequestName = passing.Name
	}
	if passing != nil {
		e.requests = append(e.requests, *passing)
	}
	e.mappings = append(e.mappings, late...)
}

func (e *extendedClaim) wants(i int, resource string) int64 {
	q := e.containers[i].Resources.Requests[corev1.ResourceName(resource)]
	return max(0, q.Value())
}

// request is a container's own: it is named after the container's number and the resource's among all that it requests.
func (e *extendedClaim) request(i int, resource, class string, count int64) *resourcev1.DeviceRequest {
	names := slices.Sorted(maps.Keys(e.containers[i].Resources.Requests))
	return &resourcev1.DeviceRequest{
		Name:    fmt.Sprintf("container-%d-request-%d", i, slices.Index(names, corev1.ResourceName(resource))),
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
	}
}

func (e *extendedClaim) mapping(i int, resource, request string) corev1.ContainerExtendedResourceRequest {
	return corev1.ContainerExtendedResourceRequest{ContainerName: e.containers[i].Name, ResourceName: resource, RequestName: request}
}
