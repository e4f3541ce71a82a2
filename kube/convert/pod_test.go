package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// elsewhere is the moment in a zone other than UTC, as decoded objects have it.
func elsewhere(t time.Time) metav1.Time { return metav1.NewTime(t.In(time.FixedZone("there", 3600))) }

func container(requests ...string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(requests...)}}
}

func TestPod(t *testing.T) {
	selector := map[string]string{"disk": "ssd"}
	sidecar := container("cpu", "100m")
	sidecar.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
	sidecar.Ports = []corev1.ContainerPort{{HostPort: 9100, Protocol: "TCP", HostIP: "10.0.0.1"}}
	setup := container("memory", "4Gi")
	setup.Ports = []corev1.ContainerPort{{HostPort: 1}}
	main := container("cpu", "1", "memory", "1Gi", "nvidia.com/gpu", "2", "example.com/none", "0")
	main.Ports = []corev1.ContainerPort{{HostPort: 53, Protocol: "UDP"}, {ContainerPort: 80}}
	got := Pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-3", UID: "u", ResourceVersion: "7", CreationTimestamp: elsewhere(noon),
			DeletionTimestamp: ptr(elsewhere(noon.Add(time.Minute))),
			Labels:            map[string]string{"batch.kubernetes.io/job-completion-index": "3", "berth.dev/queue": "research"},
			Annotations:       map[string]string{"berth.dev/gang": "train", "berth.dev/subgroup": "workers", "berth.dev/gpu-model": "H100, a100"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "berth", Priority: ptr(int32(100)), NodeSelector: selector, NodeName: "n1",
			InitContainers: []corev1.Container{sidecar, setup}, Containers: []corev1.Container{main},
			Overhead: list("cpu", "10m"),
			Tolerations: []corev1.Toleration{
				{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule", TolerationSeconds: ptr(int64(1))},
				{Key: "age", Operator: "Gt", Value: "1"},
			},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}},
					MatchFields:      []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "NotIn", Values: []string{"n9"}}},
				}, {
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"not a label"}}},
				}}},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight:     7,
					Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "new", Operator: "Exists"}}},
				}},
			}},
		},
		Status: corev1.PodStatus{NominatedNodeName: "n2"},
	}, Options{})
	want := engine.Pod{
		Key: "team/train-3", UID: "u", Version: 7, Gang: "team/gang/train", Subgroup: "workers", Rank: 3, Queue: "research",
		Labels:   map[string]string{"batch.kubernetes.io/job-completion-index": "3", "berth.dev/queue": "research"},
		Priority: 100, Created: noon, Node: "n1", Evictable: true, Terminating: true, ReleaseAt: noon.Add(time.Minute), Nominated: "n2",
		Spec: engine.Spec{
			Requests: engine.Resources{
				{Resource: "cpu", Value: 1110}, {Resource: "memory", Value: 4 << 30}, {Resource: "nvidia.com/gpu", Value: 2},
			},
			Selector: selector,
			Affinity: []engine.Term{{
				Labels: []engine.Requirement{{Key: "zone", Op: engine.In, Values: []string{"a"}}},
				Fields: []engine.Requirement{{Key: "metadata.name", Op: engine.NotIn, Values: []string{"n9"}}},
			}, {}},
			Preferred:   []engine.Preference{{Weight: 7, Term: engine.Term{Labels: []engine.Requirement{{Key: "new", Op: engine.Exists}}}}},
			Tolerations: []engine.Toleration{{Key: "nvidia.com/gpu", Op: "Exists", Effect: engine.NoSchedule}, {Key: "age", Op: "Gt", Value: "1"}},
			Ports:       []engine.Port{{IP: "10.0.0.1", Protocol: "TCP", Port: 9100}, {Protocol: "UDP", Port: 53}},
			GPU:         engine.GPU{Models: []string{"H100", "A100"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBarePod(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler"}}
	for _, c := range []struct {
		names   []string
		foreign bool
	}{{nil, true}, {[]string{"berth", "default-scheduler"}, false}, {[]string{}, true}} {
		if diff := cmp.Diff(engine.Pod{Key: "a/b", Foreign: c.foreign, Evictable: !c.foreign}, Pod(p, Options{SchedulerNames: c.names})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.names, diff)
		}
	}
}

// What a pod needs of a node's declared features is asked of the node, and nothing where it needs none.
// A pod whose containers are always started again does not end by itself.
func TestEndless(t *testing.T) {
	for policy, want := range map[corev1.RestartPolicy]bool{corev1.RestartPolicyAlways: true, corev1.RestartPolicyOnFailure: false, corev1.RestartPolicyNever: false} {
		if got := Pod(&corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy}}, Options{}).Endless; got != want {
			t.Errorf("%s: %v", policy, got)
		}
	}
}

func TestDeclaredFeatures(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Status: corev1.NodeStatus{DeclaredFeatures: []string{"X"}}}
	if diff := cmp.Diff(map[string]string{"a": "b", "node-feature/X": "true"}, Node(n, Options{}).Labels); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}}}
	if diff := cmp.Diff(p.Spec.NodeSelector, Pod(p, Options{}).Selector); diff != "" {
		t.Errorf("pod that needs nothing (-want +got):\n%s", diff)
	}
	p.Spec.HostNetwork, p.Spec.HostUsers = true, ptr(false)
	want := map[string]string{"a": "b", "node-feature/UserNamespacesHostNetworkSupport": "true"}
	if diff := cmp.Diff(want, Pod(p, Options{}).Selector); diff != "" {
		t.Errorf("pod with user namespaces on the host's network (-want +got):\n%s", diff)
	}
}

// TestNoTerms tells asking for nothing from asking for none.
func TestNoTerms(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}}
	if got := Pod(p, Options{}).Affinity; got != nil {
		t.Errorf("nothing required: got %v", got)
	}
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	if got := Pod(p, Options{}).Affinity; got == nil || len(got) != 0 {
		t.Errorf("no terms: got %#v", got)
	}
}

// TestResized counts what a resize has given, once the pod is bound.
func TestResized(t *testing.T) {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "1")}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			AllocatedResources: list("cpu", "3"),
		}}},
	}
	for node, want := range map[string]int64{"": 1000, "n1": 3000} {
		p.Spec.NodeName = node
		if got := Pod(p, Options{}).Requests.Get("cpu"); got != want {
			t.Errorf("on %q: got %d, want %d", node, got, want)
		}
	}
}

// TestAbsurd lets the engine refuse a waiting pod, and keeps a bound one.
func TestAbsurd(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"},
		Spec:       corev1.PodSpec{SchedulerName: "berth", Containers: []corev1.Container{container("cpu", "9223372036854775807", "memory", "-1")}},
	}
	rejected := func() []engine.Rejected {
		return engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Pods: []engine.Pod{Pod(p, Options{})}}, engine.Config{}).Rejected()
	}
	if got := rejected(); len(got) != 1 {
		t.Errorf("waiting: %v", got)
	}
	p.Spec.NodeName = "n"
	if got := rejected(); len(got) != 0 {
		t.Errorf("bound: %v", got)
	}
	if got := Pod(p, Options{}).Requests; !cmp.Equal(got, engine.Resources{{Resource: "cpu", Value: most}}) {
		t.Errorf("bound: %v", got)
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		labels, annotations map[string]string
		want                int
	}{
		{nil, nil, 0},
		{map[string]string{"apps.kubernetes.io/pod-index": "2"}, nil, 2},
		{map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "4"}, nil, 4},
		{nil, map[string]string{"batch.kubernetes.io/job-completion-index": "5"}, 5},
		{map[string]string{"apps.kubernetes.io/pod-index": "2"}, map[string]string{"batch.kubernetes.io/job-completion-index": "5"}, 5},
		{map[string]string{"apps.kubernetes.io/pod-index": "2"}, map[string]string{"batch.kubernetes.io/job-completion-index": "x"}, 2},
		{map[string]string{"apps.kubernetes.io/pod-index": "-2"}, nil, 0},
		{map[string]string{"training.kubernetes.io/replica-index": "3"}, nil, 0},
		{map[string]string{"training.kubeflow.org/replica-index": "3"}, nil, 3},
		{map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "0", "apps.kubernetes.io/pod-index": "7"}, nil, 0},
		{map[string]string{"jobset.sigs.k8s.io/job-global-index": "1"}, map[string]string{"batch.kubernetes.io/job-completion-index": "5"}, MaxGangSize + 6},
		{map[string]string{"jobset.sigs.k8s.io/job-global-index": "99999999999"}, nil, 0},
	} {
		if got := Rank(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}); got != c.want {
			t.Errorf("%v %v: got %d, want %d", c.labels, c.annotations, got, c.want)
		}
	}
}

func TestSchedulable(t *testing.T) {
	for _, c := range []struct {
		phase corev1.PodPhase
		gates []corev1.PodSchedulingGate
		want  bool
	}{
		{corev1.PodPending, nil, true},
		{corev1.PodRunning, nil, true},
		{"", nil, true},
		{corev1.PodUnknown, nil, true},
		{corev1.PodSucceeded, nil, false},
		{corev1.PodFailed, nil, false},
		{corev1.PodPending, []corev1.PodSchedulingGate{{Name: "wait"}}, false},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: c.gates}, Status: corev1.PodStatus{Phase: c.phase}}
		if got := Schedulable(p); got != c.want {
			t.Errorf("%s, %v: got %v", c.phase, c.gates, got)
		}
	}
}

func TestFeatures(t *testing.T) {
	fractional := container("volcano.sh/vgpu-memory", "1000")
	for _, c := range []struct {
		name        string
		annotations map[string]string
		spec        corev1.PodSpec
		want        []why.Feature
		unheeded    []string
	}{
		{name: "plain"},
		{
			name: "required between pods",
			spec: corev1.PodSpec{
				Affinity: &corev1.Affinity{
					PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}},
					PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}},
				},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}},
			},
		},
		{
			name: "preferred between pods",
			spec: corev1.PodSpec{
				Affinity: &corev1.Affinity{
					PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}}},
					PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{}}},
				},
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}},
			},
		},
		{name: "claims", spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{}}}, want: []why.Feature{why.Claims}},
		{name: "our fraction", annotations: map[string]string{"berth.dev/gpu-fraction": "0.5"}},
		{name: "Volcano's memory", spec: corev1.PodSpec{Containers: []corev1.Container{fractional}}, want: nil},
		{name: "an empty fraction", annotations: map[string]string{"gpu-fraction": " "}},
		{
			name:        "a variant of a model",
			annotations: map[string]string{"berth.dev/gpu-model": "A100-40GB, H100"},
			unheeded:    []string{"berth.dev/gpu-model A100-40GB (any A100 will do)"},
		},
		{
			name:        "keys that nobody reads",
			annotations: map[string]string{"berth.dev/topolgy-required": "rack", "berth.dev/max-runs": "1h", "berth.dev/min": "2", "sim.berth.dev/run": "1h"},
			unheeded:    []string{"berth.dev/max-runs", "berth.dev/topolgy-required"},
		},
		{
			name: "disks of the cloud",
			spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}}, {VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}}, {VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}},
			}},
			unheeded: []string{"spec.volumes of kind rbd (whether its disk is in use on the node is not looked at)"},
		},
		{
			name:        "our gang and a PodGroup",
			annotations: map[string]string{"berth.dev/gang": "g", "berth.dev/min": "2", "berth.dev/queue": "q"},
			spec:        corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: ptr("g")}},
			unheeded:    []string{"berth.dev/gang", "berth.dev/min"},
		},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Spec: c.spec}
		if diff := cmp.Diff(c.want, Pod(p, Options{}).Features); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.unheeded, Unheeded(p)); diff != "" {
			t.Errorf("%s: unheeded (-want +got):\n%s", c.name, diff)
		}
	}
}

// What a bound pod's devices take of its node counts, as its status says (gate DRANodeAllocatableResources).
func TestDevicesTakeOfTheNode(t *testing.T) {
	two := resource.MustParse("2")
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{container("cpu", "1")}}}
	p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
		ResourceClaimName: "c", Mapping: []corev1.NodeAllocatableMappedResources{{Name: corev1.ResourceCPU, Quantity: &two}},
	}}
	if got := requests(p).Get(engine.CPU); got != 3000 {
		t.Errorf("it takes %d thousandths of a CPU, want 3000", got)
	}
}
