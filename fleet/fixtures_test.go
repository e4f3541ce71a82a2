package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/file"
)

// noon is the moment at which the tests without a clock of their own take place.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// preset gives the pools of a preset by name, with an identity as if an API server had them.
func preset(t testing.TB, name string) map[string]*v1alpha1.Pool {
	t.Helper()
	pools, err := file.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*v1alpha1.Pool{}
	for i := range pools {
		pools[i].UID, pools[i].Generation = types.UID("uid-"+pools[i].Name), 1
		out[pools[i].Name] = &pools[i]
	}
	return out
}

// plainPool is a pool of CPU nodes.
func plainPool(name string, nodes int32) *v1alpha1.Pool {
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	p.Spec.Nodes = &nodes
	return withDefaults(p)
}

// gpuPool is a pool of nodes with eight H100 each.
func gpuPool(name string, nodes int32) *v1alpha1.Pool {
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	p.Spec.Nodes = &nodes
	p.Spec.GPUs = []v1alpha1.GPU{{Model: "h100", Count: 8}}
	return withDefaults(p)
}

// draPool is a pool of nodes with eight H100 each that are offered through DRA.
func draPool(name string, nodes int32) *v1alpha1.Pool {
	p := gpuPool(name, nodes)
	p.Spec.Advertise = v1alpha1.AdvertiseDRA
	return p
}

// migPool is a pool of nodes with eight H100 each that are cut by MIG.
func migPool(name string, nodes int32, strategy v1alpha1.MIGStrategy, config string) *v1alpha1.Pool {
	p := gpuPool(name, nodes)
	p.Spec.MIG = v1alpha1.MIG{Strategy: strategy, Config: config}
	return p
}

// migPods is a GPU stack with a MIG manager in which everything is ready.
func migPods() []device.StackPod {
	pods := stackPods()
	for i := range pods {
		if pods[i].Role == device.Plugin || pods[i].Role == device.GFD {
			pods[i].ConfigMap = "device-plugin-config"
		}
	}
	return append(pods, device.StackPod{Name: "gpu-operator/mig-manager", Role: device.MIG, Ready: true})
}

// draPods is a GPU stack with a DRA driver in which everything is ready.
func draPods() []device.StackPod {
	return []device.StackPod{
		{Name: "gpu-operator/dra", Role: device.DRA, Ready: true, HostPaths: []string{"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"}},
		{Name: "gpu-operator/driver", Role: device.Driver, Ready: true},
	}
}

// stackPods is a GPU stack in which everything is ready.
func stackPods() []device.StackPod {
	return []device.StackPod{
		{Name: "gpu-operator/driver", Role: device.Driver, Ready: true},
		{Name: "gpu-operator/gfd", Role: device.GFD, Ready: true},
		{Name: "gpu-operator/plugin", Role: device.Plugin, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}},
		{Name: "gpu-operator/toolkit", Role: device.Toolkit, Ready: true},
	}
}

func quantities(in map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range in {
		out[name] = resource.MustParse(amount)
	}
	return out
}
