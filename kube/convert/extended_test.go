package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExtendedClaim has requests as NAME class=count and mappings as CONTAINER resource=request, for containers written as
// "NAME resource=count": those with "init " before run first and end, with "side " they go on.
func TestExtendedClaim(t *testing.T) {
	for _, c := range []struct{ name, containers, want string }{
		{"none", "a cpu=1", ""},
		{"no class", "a example.com/other=1", ""},
		{"nothing of it", "a example.com/gpu=0", ""},
		{"one", "a example.com/gpu=2 cpu=1", "container-0-request-1 gpus=2; a example.com/gpu=container-0-request-1"},
		{"each", "a example.com/gpu=1; b; c example.com/gpu=2", "container-0-request-0 gpus=1, container-2-request-0 gpus=2; " +
			"a example.com/gpu=container-0-request-0, c example.com/gpu=container-2-request-0"},
		{"two resources", "a example.com/gpu=1 example.com/nic=1", "container-0-request-0 gpus=1, container-0-request-1 nics=1; " +
			"a example.com/gpu=container-0-request-0, a example.com/nic=container-0-request-1"},
		{"init has what comes after it", "init i example.com/gpu=2; a example.com/gpu=1; b example.com/gpu=2", "container-1-request-0 gpus=1, container-2-request-0 gpus=2; " +
			"a example.com/gpu=container-1-request-0, b example.com/gpu=container-2-request-0, i example.com/gpu=container-1-request-0, i example.com/gpu=container-2-request-0"},
		{"init is short", "init i example.com/gpu=3; init j example.com/gpu=4; a example.com/gpu=1", "container-1-request-0 gpus=3, container-2-request-0 gpus=1; " +
			"a example.com/gpu=container-2-request-0, i example.com/gpu=container-2-request-0, i example.com/gpu=container-1-request-0, " +
			"j example.com/gpu=container-2-request-0, j example.com/gpu=container-1-request-0"},
		{"init has not what came before it", "side s example.com/gpu=1; init i example.com/gpu=1", "container-0-request-0 gpus=1, container-1-request-0 gpus=1; " +
			"s example.com/gpu=container-0-request-0, i example.com/gpu=container-1-request-0"},
	} {
		claim, mappings := ExtendedClaim(extendedPod(c.containers), func(name string) *resourcev1.DeviceClass {
			class := map[string]string{"example.com/gpu": "gpus", "example.com/nic": "nics"}[name]
			if class == "" {
				return nil
			}
			return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		})
		got := ""
		if claim != nil {
			var requests, maps []string
			for _, r := range claim.Spec.Devices.Requests {
				requests = append(requests, fmt.Sprintf("%s %s=%d", r.Name, r.Exactly.DeviceClassName, r.Exactly.Count))
			}
			for _, m := range mappings {
				maps = append(maps, fmt.Sprintf("%s %s=%s", m.ContainerName, m.ResourceName, m.RequestName))
			}
			got = strings.Join(requests, ", ") + "; " + strings.Join(maps, ", ")
			if owner, ok := ExtendedFor(claim); !ok || owner.UID != "u" {
				t.Errorf("%s: the claim is of %v", c.name, owner)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func extendedPod(containers string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	for _, text := range strings.Split(containers, "; ") {
		words := strings.Fields(text)
		kind := ""
		if words[0] == "init" || words[0] == "side" {
			kind, words = words[0], words[1:]
		}
		c := corev1.Container{Name: words[0], Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
		for _, w := range words[1:] {
			name, n, _ := strings.Cut(w, "=")
			c.Resources.Requests[corev1.ResourceName(name)] = resource.MustParse(n)
		}
		if kind == "side" {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		if kind == "" {
			p.Spec.Containers = append(p.Spec.Containers, c)
		} else {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}
