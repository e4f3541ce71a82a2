package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/kube/convert"
)

// extendedWorld is a deviceWorld whose class has nvidia.com/gpu.
func extendedWorld(t *testing.T, objects ...runtime.Object) *world {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, Spec: resourcev1.DeviceClassSpec{
		ExtendedResourceName: new("nvidia.com/gpu"),
		Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}},
	}}
	return deviceWorld(t, append(objects, class)...)
}

// extended is what stands for extended resources in the API: claims with their devices and pods, and what pods name.
func (w *world) extended() (out []string) {
	w.t.Helper()
	list, err := w.client.Tracker().List(resourceClaims, schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}, "default")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list.(*resourcev1.ResourceClaimList).Items {
		if owner, ok := convert.ExtendedFor(&c); ok {
			requests := 0
			for _, r := range c.Spec.Devices.Requests {
				requests += int(r.Exactly.Count)
			}
			text := fmt.Sprintf("%s wants %d: %s", owner.Name, requests, w.held(c.Name))
			if s := w.pod(owner.Name).Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName == c.Name {
				text += fmt.Sprintf(", named with %d requests", len(s.RequestMappings))
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// Nodes of both kinds are in one cluster: where a device plugin counts, a pod has no claim, elsewhere one is made for it.
func TestExtendedResourcesOnBothKindsOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := extendedWorld(t, append(gpuNode("dra", 2), node("plugin", "r1", 2), pod("a", 2), pod("b", 2), pod("c", 2))...)
		named := true
		w.deny = func(b *corev1.Binding) error {
			named = named && (b.Target.Name == "plugin") == (w.pod(b.Name).Status.ExtendedResourceClaimStatus == nil)
			return nil
		}
		w.start()
		w.rest()
		var got []string
		byClaim := ""
		for _, name := range []string{"a", "b", "c"} {
			if at := w.pod(name).Spec.NodeName; at != "" {
				if got = append(got, at); at == "dra" {
					byClaim = name
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"dra", "plugin"}, got); diff != "" || !named {
			t.Errorf("%s; all had their claims named before they were bound: %t", diff, named)
		}
		want := []string{fmt.Sprintf("%[1]s wants 2: dra/gpu-0 dra/gpu-1 for %[1]s, named with 1 requests", byClaim)}
		if diff := cmp.Diff(want, w.extended()); diff != "" {
			t.Error(diff)
		}
	})
}

// By the name of the class, which no node counts; a class that is not there is waited for.
func TestResourceNamedAfterAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := func(name, class string) *corev1.Pod {
			p := pod(name, 0)
			wanted := corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)
			p.Spec.Containers[0].Resources.Requests[wanted] = resource.MustParse("1")
			return p
		}
		w := extendedWorld(t, append(gpuNode("dra", 1), asks("a", "whole"), asks("b", "fpga"))...)
		w.start()
		wantAt(t, w, []string{"dra", ""}, "a", "b")
		if diff := cmp.Diff([]string{"a wants 1: dra/gpu-0 for a, named with 1 requests"}, w.extended()); diff != "" {
			t.Error(diff)
		}
		if said := strings.Join(w.said("b"), "; "); !strings.Contains(said, "device class fpga") {
			t.Errorf("said %q, %s", said, w.condition("b"))
		}
	})
}

// What is there already under the claim's name, or was left of an earlier start, does not keep the pod from its devices.
func TestExtendedClaimIsThereAlready(t *testing.T) {
	own := func(edit func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		p := pod("a", 1)
		p.UID = "a"
		c, _ := convert.ExtendedClaim(p, func(string) *resourcev1.DeviceClass {
			return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "whole"}}
		})
		c.UID, c.GenerateName = "left", ""
		edit(c)
		return c
	}
	allocate := func(c *resourcev1.ResourceClaim) {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status = resourcev1.ResourceClaimStatus{
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}},
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "container-0-request-0", Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"},
			}}},
		}
	}
	for what, left := range map[string]*resourcev1.ResourceClaim{
		"a crash after it was made":                  own(func(*resourcev1.ResourceClaim) {}),
		"a crash after it was allocated":             own(allocate),
		"another scheduler's, under another name":    own(func(c *resourcev1.ResourceClaim) { c.Name = "a-extended-resources-x7k2p"; allocate(c) }),
		"of a pod of this name that is not any more": own(func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].UID = "before" }),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pod("a", 1)
			p.UID = "a"
			w := extendedWorld(t, append(gpuNode("n1", 1), left.DeepCopy(), p)...)
			w.start()
			w.after(5 * time.Minute)
			got := slices.DeleteFunc(w.extended(), func(s string) bool { return strings.Contains(s, "nothing") })
			if at := w.pod("a").Spec.NodeName; at != "n1" || !slices.Equal(got, []string{"a wants 1: n1/gpu-0 for a, named with 1 requests"}) {
				t.Errorf("%s: on %q, %q, said %q", what, at, got, w.said("a"))
			}
		})
	}
}

// The API server says no once, at each step: the pod starts in the end, with one claim, and nothing is left of the first try.
func TestExtendedClaimIsRefused(t *testing.T) {
	for _, c := range []struct{ what, verb, resource, sub string }{
		{"create", "create", "resourceclaims", ""},
		{"finalizer", "update", "resourceclaims", ""},
		{"allocation", "update", "resourceclaims", "status"},
		{"pod status", "patch", "pods", "status"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := extendedWorld(t, append(append(gpuNode("n1", 1), gpuNode("n2", 1)...), pod("a", 1))...)
			refused := 0
			w.client.PrependReactor(c.verb, c.resource, func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.GetSubresource() != c.sub || refused > 0 {
					return false, nil, nil
				}
				refused++
				return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "a", errors.New("no"))
			})
			w.start()
			w.after(5 * time.Minute)
			at := w.pod("a").Spec.NodeName
			want := []string{fmt.Sprintf("a wants 1: %s/gpu-0 for a, named with 1 requests", at)}
			if diff := cmp.Diff(want, w.extended()); diff != "" || at == "" {
				t.Errorf("%s: on %q after %d refusals, said %q: %s", c.what, at, refused, w.said("a"), diff)
			}
		})
	}
}

// The binding is refused for good on the first node: its claim goes, and another is made for the next.
func TestExtendedClaimOfARefusedBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := extendedWorld(t, append(gpuNode("n1", 1), node("n2", "r1", 1), pod("a", 1))...)
		w.deny = func(b *corev1.Binding) error {
			if b.Target.Name == "n1" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, b.Name, errors.New("not there"))
			}
			return nil
		}
		w.start()
		w.after(5 * time.Minute)
		if at, names := w.pod("a").Spec.NodeName, w.pod("a").Status.ExtendedResourceClaimStatus; at != "n2" || names != nil {
			t.Errorf("on %q, names %v, said %q", at, names, w.said("a"))
		}
	})
}
