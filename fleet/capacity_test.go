package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/device"
)

// only keeps what is not the machine's own.
func only(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		if extended(name) {
			out[string(name)] = q.String()
		}
	}
	return out
}

func TestWhatANodeOffersOfExtendedResources(t *testing.T) {
	type res = map[corev1.ResourceName]string
	type shown = map[string]string
	const gpu, fpga = device.Resource, "example.com/fpga"
	later := noon.Add(time.Minute)
	for _, tc := range []struct {
		name                  string
		capacity, allocatable res
		remembered            bool // a device plugin was registered, says the checkpoint
		adv                   device.Advertisement
		wantCapacity, wantAll shown
		wantRemembered        bool
	}{
		{name: "nobody advertises anything", wantCapacity: shown{}, wantAll: shown{}},
		{name: "a user patches the capacity", capacity: res{gpu: "1"},
			wantCapacity: shown{gpu: "1"}, wantAll: shown{gpu: "1"}},
		{name: "and takes it back", allocatable: res{gpu: "1", fpga: "2"}, capacity: res{fpga: "2"},
			wantCapacity: shown{fpga: "2"}, wantAll: shown{fpga: "2"}},
		{name: "a plugin registers over it", capacity: res{gpu: "1", fpga: "2"},
			adv:          device.Advertisement{Resources: []device.Offer{{Name: gpu, Connected: true, Capacity: 8, Allocatable: 7}}},
			wantCapacity: shown{gpu: "8", fpga: "2"}, wantAll: shown{gpu: "7", fpga: "2"}, wantRemembered: true},
		{name: "the plugin has just gone", capacity: res{gpu: "8"}, allocatable: res{gpu: "8"}, remembered: true,
			adv:          device.Advertisement{Resources: []device.Offer{{Name: gpu, Capacity: 8}}, Changes: later},
			wantCapacity: shown{gpu: "8"}, wantAll: shown{gpu: "0"}, wantRemembered: true},
		{name: "the plugin has been gone for long", capacity: res{gpu: "8"}, remembered: true,
			adv:          device.Advertisement{},
			wantCapacity: shown{gpu: "0"}, wantAll: shown{gpu: "0"}},
		{name: "our process restarted, the plugin is not back yet", capacity: res{gpu: "8"}, allocatable: res{gpu: "8"}, remembered: true,
			wantCapacity: shown{gpu: "0"}, wantAll: shown{gpu: "0"}},
		{name: "a user takes over after that", capacity: res{gpu: "3"},
			adv:          device.Advertisement{},
			wantCapacity: shown{gpu: "3"}, wantAll: shown{gpu: "3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{}
			node.Name = "n"
			node.Status.Capacity, node.Status.Allocatable = quantities(tc.capacity), quantities(tc.allocatable)
			if tc.remembered {
				node.Annotations = map[string]string{pluginAnnotation: device.Resource}
			}
			got := publish(node, facts{want: want{pool: plainPool("n", 1), index: 0}}, tc.adv, noon)
			if diff := cmp.Diff(tc.wantCapacity, only(got.Status.Capacity)); diff != "" {
				t.Error("capacity", diff)
			}
			if diff := cmp.Diff(tc.wantAll, only(got.Status.Allocatable)); diff != "" {
				t.Error("allocatable", diff)
			}
			if remembered := got.Annotations[pluginAnnotation] != ""; remembered != tc.wantRemembered {
				t.Errorf("remembered %t, want %t", remembered, tc.wantRemembered)
			}
		})
	}
}

func TestKubeletReservesWithDefaultSettings(t *testing.T) {
	for _, tc := range []struct {
		name         corev1.ResourceName
		amount, want string
	}{
		{corev1.ResourceCPU, "96", "96"},
		{corev1.ResourceMemory, "1Gi", "924Mi"},
		{corev1.ResourceMemory, "50Mi", "0"},
		{corev1.ResourceEphemeralStorage, "100", "90"},
		{device.Resource, "8", "8"},
	} {
		if got := lessReserved(tc.name, resource.MustParse(tc.amount)); got.Cmp(resource.MustParse(tc.want)) != 0 {
			t.Errorf("%s %s leaves %s, want %s", tc.name, tc.amount, got.String(), tc.want)
		}
	}
}

func TestExtendedResourceNames(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{
		"nvidia.com/gpu": true, "cpu": false, "hugepages-2Mi": false, "kubernetes.io/x": false,
		"node.kubernetes.io/x": false, "requests.nvidia.com/gpu": false,
	} {
		if extended(name) != want {
			t.Errorf("extended(%s) = %t", name, !want)
		}
	}
}
