package gpustack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
)

// The DaemonSets that Berth itself deploys are told apart, by their labels and without them.
func TestRolesOfTheFleet(t *testing.T) {
	want := map[string]Role{
		"driver.yaml": RoleDriver, "toolkit.yaml": RoleToolkit, "device-plugin.yaml": RolePlugin,
		"gpu-feature-discovery.yaml": RoleDiscovery, "dcgm-exporter.yaml": RoleOther, "dra-driver.yaml": "",
	}
	for file, role := range want {
		b, err := os.ReadFile(filepath.Join("../../fleet/manifests", file))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, doc := range strings.Split(string(b), "\n---\n") {
			var d appsv1.DaemonSet
			if err := yaml.Unmarshal([]byte(doc), &d); err != nil || d.Kind != "DaemonSet" {
				continue
			}
			found = true
			if got := roleOfPod(d.Spec.Template.Labels, &d.Spec.Template.Spec); got != role {
				t.Errorf("%s: role %q, want %q", file, got, role)
			}
			if got := roleOfPod(nil, &d.Spec.Template.Spec); got != role && role != RoleDriver {
				t.Errorf("%s without labels: role %q, want %q", file, got, role)
			}
			if mounts := MountsSockets(&d.Spec.Template.Spec); mounts != (role == RolePlugin) {
				t.Errorf("%s: mounts the kubelet's folder: %v", file, mounts)
			}
		}
		if !found {
			t.Errorf("%s has no DaemonSet", file)
		}
	}
}

// Pods as other installers make them.
func TestRoles(t *testing.T) {
	one := func(image string, command ...string) *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image, Command: command}}}
	}
	chart := map[string]string{"app.kubernetes.io/name": "nvidia-device-plugin"}
	for _, c := range []struct {
		labels map[string]string
		spec   *corev1.PodSpec
		want   Role
	}{
		{map[string]string{"name": "nvidia-device-plugin-ds"}, one("x"), RolePlugin},
		{map[string]string{"k8s-app": "nvidia-gpu-device-plugin"}, one("x"), RolePlugin},
		{map[string]string{"k8s-app": "nvidia-driver-installer"}, one("x"), RoleDriver},
		{map[string]string{"app.kubernetes.io/component": "nvidia-driver"}, one("x"), RoleDriver},
		{chart, one("example.com/nvidia/k8s-device-plugin:v0.17", "nvidia-device-plugin"), RolePlugin},
		{chart, one("example.com/nvidia/k8s-device-plugin:v0.17", "gpu-feature-discovery"), RoleDiscovery},
		{map[string]string{"app": "nvidia-operator-validator"}, one("x"), RoleOther},
		{nil, one("example.com/nvidia/k8s-device-plugin@sha256:00"), RolePlugin},
		{map[string]string{"app": "web"}, one("example.com/web:1"), ""},
	} {
		if got := roleOfPod(c.labels, c.spec); got != c.want {
			t.Errorf("%v %s: role %q, want %q", c.labels, c.spec.Containers[0].Image, got, c.want)
		}
	}
}

// Taints of a state are told from those of hardware and teams.
func TestStateTaints(t *testing.T) {
	for key, want := range map[string]bool{
		"node.kubernetes.io/not-ready": true, "node.kubernetes.io/unschedulable": true, "node.kubernetes.io/disk-pressure": true,
		"karpenter.sh/disrupted": true, "ToBeDeletedByClusterAutoscaler": true, "readiness.k8s.io/gpu": true,
		"node.cilium.io/agent-not-ready": true, "burn-in.example.com/pending": true, "medik8s.io/remediation": true, "node.cattle.io/upgrade": true, "node-problem-detector/kernel-deadlock": true, "example.com/independent": false, "example.com/drainage": false, "ebs.csi.aws.com/agent-not-ready": true, "startup-taint.cluster-autoscaler.kubernetes.io/x": true,
		"example.com/quarantine": true, "node.cloudprovider.kubernetes.io/uninitialized": true, "example.com/maintenance": true,
		"nvidia.com/gpu": false, "team": false, "dedicated": false, "example.com/default-pool": false, "node-role.kubernetes.io/control-plane": false,
	} {
		if got := stateTaint(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

// Some conditions are good when True, and others bad.
func TestSickness(t *testing.T) {
	for _, c := range []struct {
		kind, status, reason string
		want                 bool
	}{
		{"AcceleratedHardwareReady", "False", "NvidiaXID79Error", true},
		{"AcceleratedHardwareReady", "True", "", false},
		{"GpuThermalMarginWatch", "True", "GpuThermalMarginWatchIsNotHealthy", true},
		{"GpuThermalMarginWatch", "False", "GpuThermalMarginWatchIsHealthy", false},
		{"SysLogsXIDError", "True", "SysLogsXIDErrorIsNotHealthy", true},
		{"Ready", "False", "KubeletNotReady", false},
		{"DiskPressure", "True", "KubeletHasDiskPressure", false},
	} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeConditionType(c.kind), Status: corev1.ConditionStatus(c.status), Reason: c.reason}}}}
		if got := Sickness(n) != nil; got != c.want {
			t.Errorf("%s=%s %s: sick %v", c.kind, c.status, c.reason, got)
		}
	}
}

// How often GPUs are divided by the profiles that NVIDIA lists for them.
func TestMIGPerGPU(t *testing.T) {
	for _, c := range []struct {
		profile string
		memory  int64 // MiB, as feature discovery labels it
		want    int64
	}{
		{"1g.10gb", 81559, 7}, {"1g.20gb", 81559, 4}, {"2g.20gb", 81559, 3}, {"3g.40gb", 81559, 2}, {"4g.40gb", 81559, 1}, {"7g.80gb", 81559, 1}, {"1g.10gb.me", 81559, 1},
		{"1g.5gb", 40960, 7}, {"1g.10gb", 40960, 4}, {"3g.20gb", 40960, 2},
		{"1g.18gb", 143771, 7}, {"1g.35gb", 143771, 4}, {"3g.71gb", 143771, 2}, {"7g.141gb", 143771, 1},
		{"1g.6gb", 24576, 4}, {"2g.12gb", 24576, 2}, {"4g.24gb", 24576, 1},
		{"1g.5gb", 81559, 0}, {"1g.10gb", 0, 7},
	} {
		p, ok := readProfile(c.profile)
		if got := p.perGPU(c.memory); !ok || got != c.want {
			t.Errorf("%s of %d MiB: %d, want %d", c.profile, c.memory, got, c.want)
		}
	}
}

func FuzzReadProfile(f *testing.F) {
	for _, s := range []string{"1g.10gb", "1g.10gb.me", "7g.80gb", "disabled", "", "9g.1gb", "1g.0gb"} {
		f.Add(s, int64(81559))
	}
	f.Fuzz(func(t *testing.T, s string, memory int64) {
		p, ok := readProfile(s)
		if ok && (p.Name != s || p.Slices < 1 || p.Slices > 7 || p.Memory < 1) {
			t.Errorf("%q reads as %+v", s, p)
		}
		if !ok {
			return
		}
		if n := p.perGPU(memory); n < 0 || n > 7 {
			t.Errorf("%q: %d of %d MiB", s, n, memory)
		}
	})
}

// A sound node has what it should, whatever was wrong with it; the node itself is not touched.
func TestSound(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{labelCount: "8", LabelUpgrade: "upgrade-failed"}, Annotations: map[string]string{SentinelEvent: "[]"}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{
			{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}, {Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse}}},
	}
	before := n.DeepCopy()
	f := &facts.Facts{Objects: facts.Objects{Nodes: []*corev1.Node{n}}}
	s := Repaired(f, n)
	g := &facts.Facts{Objects: facts.Objects{Nodes: []*corev1.Node{s}}}
	if Of(g).States[s.Name] != NodeOpen || Offers(s, WholeGPU) != 8 || len(s.Spec.Taints) != 1 || Of(g).Faults["n"] != FaultNone {
		t.Errorf("sound node is %s, offers %d, taints %v", Of(g).States[s.Name], Offers(s, WholeGPU), s.Spec.Taints)
	}
	if b, _ := n.Marshal(); string(b) != func() string { b, _ := before.Marshal(); return string(b) }() {
		t.Error("the node was changed")
	}
}

// A node whose network cards or NVLink channels are offered in ResourceSlices has its GPUs by count, whoever made the driver.
func TestGPUsByClaim(t *testing.T) {
	for driver, want := range map[string]bool{"gpu.nvidia.com": true, "compute-domain.nvidia.com": false, "dra.net": false, "nic.nvidia.com": false} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &n.Name, Devices: []resourcev1.Device{{Name: "a"}}}}
		f := &facts.Facts{Objects: facts.Objects{Nodes: []*corev1.Node{n}, ResourceSlices: []*resourcev1.ResourceSlice{s}}}
		if got := Of(f).byClaim(n); got != want {
			t.Errorf("%s: by claim %v, want %v", driver, got, want)
		}
	}
}

// Network cards in NVIDIA's domain are no GPUs under another name.
func TestRenamed(t *testing.T) {
	for want, list := range map[int64]corev1.ResourceList{
		0: {"nvidia.com/hostdev": resource.MustParse("16"), "nvidia.com/rdma-vf": resource.MustParse("16"), "nvidia.com/mig-1g.10gb": resource.MustParse("7"), WholeGPU: resource.MustParse("8")},
		4: {"nvidia.com/gpu.shared": resource.MustParse("4"), "nvidia.com/mlnxnics": resource.MustParse("16")},
	} {
		if got := Renamed(list); got != want {
			t.Errorf("%v: %d, want %d", list, got, want)
		}
	}
}
