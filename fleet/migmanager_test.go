package fleet

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// pluginConfigs is the shipped ConfigMap.
func pluginConfigs(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	list, err := gpuConfigs()
	if err != nil {
		t.Fatal(err)
	}
	return decode[corev1.ConfigMap](t, list[0])
}

// migBed is a bed in which DaemonSets follow the deploy labels: a pod whose label is not "true" goes when settled is called.
type migBed struct {
	*bed
	node string
}

func (b migBed) follow() {
	b.t.Helper()
	b.settle()
	labels := b.get(b.node).Labels
	b.setStack(b.node, slices.DeleteFunc(migPods(), func(p device.StackPod) bool {
		key := migClients[p.Role]
		return key != "" && labels[key] != "true"
	}))
	b.settle()
}

// state is what the labels say: the MIG manager's state, and whether its clients are to be there.
func (b migBed) state() string {
	l := b.get(b.node).Labels
	return strings.Join([]string{l[migConfigLabel], l[migStateLabel], l["nvidia.com/gpu.deploy.device-plugin"], l["nvidia.com/gpu.deploy.gpu-feature-discovery"]}, " ")
}

func (b migBed) want(when, state string, offers map[corev1.ResourceName]string) {
	b.t.Helper()
	if got := b.state(); got != state {
		b.t.Errorf("%s: %s, want %s", when, got, state)
	}
	for name, want := range offers {
		b.wantOffer(when, b.node, name, want)
	}
}

func TestMIGManager(t *testing.T) {
	const one, three = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{migPool("p", 1, "mixed", "all-balanced")}, pluginConfigs(t)), "p-0"}
		b.want("nobody is there yet", "all-balanced  true true", nil)
		b.setStack("p-0", migPods())
		b.settle()
		b.want("its clients have to go first", "all-balanced pending paused-for-mig-change paused-for-mig-change", nil)
		if n := b.statuses["p"].GPUs; n != 0 {
			t.Errorf("the pool counts %d GPUs that are about to go", n)
		}
		b.follow()
		b.want("they went", "all-balanced success true true", nil)
		b.follow()
		b.want("they are back", "all-balanced success true true", map[corev1.ResourceName]string{one: "16/16", three: "8/8", device.Resource: "8/0"})
		if got := b.get("p-0").Labels["nvidia.com/mig-3g.40gb.count"]; got != "8" {
			t.Errorf("GFD counts %q 3g", got)
		}
		ready := slices.IndexFunc(b.statuses["p"].Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.PoolReady })
		if got := b.statuses["p"]; got.GPUs != 32 || got.Conditions[ready].Status != metav1.ConditionTrue {
			t.Errorf("%d GPUs, %v", got.GPUs, got.Conditions[ready])
		}

		devices := b.machines.get("p-0").devices
		if _, err := devices.Allocate("pod", "main", one, 1); err != nil {
			t.Fatal(err)
		}
		ask := func(config string) {
			b.edit("p-0", func(n *corev1.Node) { n.Labels[migConfigLabel] = config })
			b.follow()
			b.follow()
		}
		ask("all-1g.10gb")
		b.want("a pod holds an instance", "all-1g.10gb failed true true", map[corev1.ResourceName]string{one: "16/16", three: "8/8"})
		ask("all-1g.5gb")
		b.want("a profile of another model", "all-1g.5gb failed true true", map[corev1.ResourceName]string{one: "16/16"})
		devices.Release("pod")
		ask("all-1g.10gb")
		b.want("the pod is gone", "all-1g.10gb success true true", map[corev1.ResourceName]string{one: "56/56", three: "8/0"})
		ask("all-disabled")
		b.want("MIG is off", "all-disabled success true true", map[corev1.ResourceName]string{device.Resource: "8/8", one: "56/0"})
		if got, has := b.get("p-0").Annotations[v1alpha1.KeyMIG]; has {
			t.Errorf("%s=%s", v1alpha1.KeyMIG, got)
		}
	})
}

// A GPU of the Ampere family is reset for another MIG mode, and where that cannot be done the MIG manager reboots the node.
func TestMIGManagerReboots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := migPool("p", 1, "mixed", "all-balanced")
		pool.Spec.GPUs[0].Model = "a100"
		b := migBed{newBed(t, false, []*v1alpha1.Pool{pool}, pluginConfigs(t)), "p-0"}
		only := slices.DeleteFunc(migPods(), func(p device.StackPod) bool { return migClients[p.Role] != "" })
		for i := range only {
			only[i].Env = map[string]string{"WITH_REBOOT": "true"}
		}
		b.setStack("p-0", only)
		b.settle()
		time.Sleep(rebootTime)
		b.settle()
		b.want("it is back", "all-balanced success true true", nil)
		var states []string
		for _, a := range b.client.Actions() {
			if u, ok := a.(clienttesting.UpdateAction); ok && a.Matches("update", "nodes") && a.GetSubresource() == "" {
				states = append(states, u.GetObject().(*corev1.Node).Labels[migStateLabel])
			}
		}
		if diff := cmp.Diff([]string{migPending, migRebooting, migSuccess}, states); diff != "" {
			t.Error(diff)
		}
		if !b.machines.get("p-0").devices.Partitions()[0].Enabled {
			t.Error("the GPUs are not cut")
		}
	})
}

// Configurations of a user's own ConfigMap come before those of mig-parted; a broken one fails and says so.
func TestMIGConfigMap(t *testing.T) {
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: migConfigMap}}
	own.Data = map[string]string{"config.yaml": "version: v1\nmig-configs:\n  two:\n  - {devices: [0], mig-enabled: true, mig-devices: {7g.80gb: 1}}\n"}
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{migPool("p", 1, "mixed", "two")}, pluginConfigs(t), own), "p-0"}
		for range 3 {
			b.follow()
		}
		b.want("one of eight GPUs is cut", "two success true true", map[corev1.ResourceName]string{"nvidia.com/mig-7g.80gb": "1/1", device.Resource: "7/7"})
	})
	broken := own.DeepCopy()
	broken.Data["config.yaml"] = "version: v7"
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{migPool("p", 1, "mixed", "two")}, pluginConfigs(t), broken), "p-0"}
		b.follow()
		b.want("it cannot be read", "two failed true true", nil)
	})
}

// A new process finds the GPUs as the last one left them, and has nothing to do.
func TestMIGOutlivesAProcess(t *testing.T) {
	var node *corev1.Node
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{migPool("p", 1, "single", "all-3g.40gb")}, pluginConfigs(t)), "p-0"}
		for range 3 {
			b.follow()
		}
		b.want("first", "all-3g.40gb success true true", map[corev1.ResourceName]string{device.Resource: "16/16"})
		node = b.get("p-0")
	})
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{migPool("p", 1, "single", "all-3g.40gb")}, pluginConfigs(t), node), "p-0"}
		b.setStack("p-0", migPods())
		b.settle()
		b.want("second", "all-3g.40gb success true true", map[corev1.ResourceName]string{device.Resource: "16/16"})
		if got := b.get("p-0").Labels["nvidia.com/gpu.product"]; got != "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb" {
			t.Error(got)
		}
	})
}

// The label of a node selects how its plugin shares GPUs. An entry that is not there changes nothing.
func TestPluginConfigFollowsTheLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := migBed{newBed(t, false, []*v1alpha1.Pool{gpuPool("p", 1)}, pluginConfigs(t)), "p-0"}
		b.follow()
		b.wantOffer("without a label", "p-0", device.Resource, "8/8")
		var got []string
		for _, config := range []string{"time-slicing-4", "nonsense", "shared-4", "mps-4", "default"} {
			b.edit("p-0", func(n *corev1.Node) { n.Labels[pluginConfigLabel] = config })
			b.settle()
			l := b.get("p-0").Labels
			got = append(got, strings.Join([]string{config, b.offer("p-0", device.Resource), b.offer("p-0", "nvidia.com/gpu.shared"),
				l["nvidia.com/gpu.product"], l["nvidia.com/gpu.replicas"], l["nvidia.com/gpu.sharing-strategy"]}, " "))
		}
		if diff := cmp.Diff([]string{
			"time-slicing-4 32/32 -/- NVIDIA-H100-80GB-HBM3-SHARED 4 time-slicing",
			"nonsense 32/32 -/- NVIDIA-H100-80GB-HBM3-SHARED 4 time-slicing",
			"shared-4 32/0 32/32 NVIDIA-H100-80GB-HBM3 4 time-slicing",
			"mps-4 32/32 32/0 NVIDIA-H100-80GB-HBM3-SHARED 4 mps",
			"default 8/8 32/0 NVIDIA-H100-80GB-HBM3 1 none",
		}, got); diff != "" {
			t.Error(diff)
		}
	})
}
