package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/fleet/dra"
)

// run calls the command line with a home of its own and a control plane that must not be
// reached.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Main(args, Streams{In: strings.NewReader(""), Out: &out, Err: &errOut}, Deps{
		StartControlPlane: func(context.Context, ControlPlaneOptions) (ControlPlane, error) {
			return nil, errors.New("the control plane was started")
		},
		Kubectl:    func([]string) int { return 0 },
		Kubernetes: "v1.37.1",
		Lab:        Lab,
	})
	return code, out.String(), errOut.String()
}

func TestBadInputIsOneClearLine(t *testing.T) {
	root := t.TempDir()
	t.Setenv("BERTH_HOME", root)
	old := home.Named(root, "old")
	if err := errors.Join(os.MkdirAll(old.Path, 0o700), old.Save(home.Record{Format: home.Format, Kubernetes: "v1.30.0", Name: "old"})); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"up --name Bad", exitUsage, `cluster name "Bad": use`},
		{"up --speed 0", exitUsage, "--speed 0: give a number above 0"},
		{"up --speed NaN", exitUsage, "--speed NaN"},
		{"up --api-port 70000", exitUsage, "--api-port 70000"},
		{"up --default-scheduler kai", exitUsage, `--default-scheduler "kai": choose stock`},
		{"up --gang-grace -1s", exitUsage, "--gang-grace -1s: give a time above 0"},
		{"up --device-binding-timeout 0s", exitUsage, "--device-binding-timeout 0s: give a time above 0"},
		{"up --policy lottery", exitUsage, `--policy "lottery": choose default, timeshare, fifo or strict`},
		{"up --backfill-heads 0", exitUsage, `--backfill-heads "0": give a number from 1, or all`},
		{"up --gpu-rate H100", exitUsage, `--gpu-rate "H100": write MODEL=UNITS`},
		{"up --gpu-rate H100=2,H100=3", exitUsage, `--gpu-rate "H100=3": H100 is given twice`},
		{"up --overtake-for -1h", exitUsage, "--overtake-for -1h0m0s: give a time"},
		{"up --half-life -1h", exitUsage, "--half-life -1h0m0s: give a time"},
		{"up --min-run-time -1h", exitUsage, "--min-run-time -1h0m0s: give a time"},
		{"scheduler --name nobody --moves some", exitUsage, `--moves "some": choose on, off, or give a number`},
		{"scheduler", exitUnknown, "which cluster? give --kubeconfig FILE"},
		{"scheduler --name nobody", exitUnknown, `there is no cluster "nobody"`},
		{"scheduler --kubeconfig nowhere.yaml", exitUnknown, "--kubeconfig nowhere.yaml: "},
		{"scheduler --name nobody --level rack", exitUsage, `--level "rack": write NAME=LABEL`},
		{"scheduler --name nobody --kubeconfig x", exitUsage, "[kubeconfig name]"},
		{"jobs --kubeconfig nowhere.yaml", exitUnknown, "--kubeconfig nowhere.yaml: "},
		{"freeze", exitUnknown, `there is no cluster "berth"`},
		{"thaw --kubeconfig nowhere.yaml", exitUnknown, "--kubeconfig nowhere.yaml: "},
		{"freeze research --name old", exitUnknown, `cluster "old" is not running`},
		{"queue close research", exitUnknown, `there is no cluster "berth"`},
		{"queue drain research --name nobody", exitUnknown, `there is no cluster "nobody"`},
		{"queue reopen research", exitUnknown, `there is no cluster "berth"`},
		{"hold job/train", exitUnknown, `there is no cluster "berth"`},
		{"requeue job/train --kubeconfig nowhere.yaml", exitUnknown, "--kubeconfig nowhere.yaml: "},
		{"up --bogus", exitUsage, "unknown flag: --bogus"},
		{"up extra", exitFailed, `fleet "extra" is neither a preset nor a file`},
		{"up --fleet nothing-here", exitFailed, "nothing-here"},
		{"up --name old", exitFailed, "was written by Kubernetes v1.30.0"},
		{"up --name new --data " + full, exitFailed, "is not empty and holds no cluster (it has thesis.tex)"},
		{"down --name nobody", exitFailed, `there is no cluster "nobody"`},
		{"status --name nobody", exitUnknown, `there is no cluster "nobody"`},
		{"status -o xml", exitUsage, `--output "xml"`},
		{"kubectl get pods", exitUnknown, "there is no cluster \"berth\": `berth up --name berth` starts one, and --name chooses another (old)"},
		{"kubectl --name old get pods", exitUnknown, `cluster "old" is not running`},
		{"fleet apply", exitUsage, `required flag(s) "filename" not set`},
		{"fleet apply -f lab", exitFailed, `there is no cluster "berth"`},
		{"fleet show --name old", exitUnknown, `cluster "old" is not running`},
		{"frobnicate", exitUsage, `unknown command "frobnicate"`},
		{"stauts", exitUsage, `unknown command "stauts" for "berth"; did you mean status?`},
		{"stop", exitUsage, "did you mean down?"},
		{"fleet preset", exitUsage, `unknown command "preset" for "berth fleet"; did you mean presets?`},
		{"up --detatch", exitUsage, "unknown flag: --detatch; did you mean --detach?"},
		{"jobs --wating", exitUsage, "did you mean --waiting?"},
		{"up lab --fleet layers", exitUsage, "two fleets are given, lab and layers"},
		{"up lba", exitFailed, "did you mean lab?"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("berth %s: code %d, stdout %q, stderr %q; want code %d and one line with %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

func TestAFailedStartLeavesTheFolderUsable(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	for range 2 { // the second start must get as far as the first
		code, _, stderr := run(t, "up", "--fleet", "layers")
		if code != exitFailed || !strings.Contains(stderr, "the control plane was started") {
			t.Fatalf("code %d, stderr %q", code, stderr)
		}
	}
	code, stdout, _ := run(t, "status", "-o", "name")
	if code != exitOK || stdout != "berth\n" {
		t.Errorf("status after a failed start: code %d, %q", code, stdout)
	}
}

func TestAnEphemeralClusterIsNotMadeOfALastingOne(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	run(t, "up", "--fleet", "layers") // fails to start, but has claimed the folder
	code, _, stderr := run(t, "up", "--fleet", "layers", "--ephemeral")
	if code != exitFailed || !strings.Contains(stderr, "keeps its data") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

func TestKubectlArguments(t *testing.T) {
	for _, c := range []struct {
		in    string
		name  string
		rest  string
		needs bool
	}{
		{"get pods", defaultName, "get pods", true},
		{"--name l get pods --name x", "l", "get pods --name x", true},
		{"--name=l logs p", "l", "logs p", true},
		{"", defaultName, "", false},
		{"get --help", defaultName, "get --help", false},
		{"exec p -- sh --help", defaultName, "exec p -- sh --help", true},
		{"--kubeconfig=x get pods", defaultName, "--kubeconfig=x get pods", false},
		{"completion bash", defaultName, "completion bash", false},
		{"version --client", defaultName, "version --client", false},
		{"version", defaultName, "version", true},
	} {
		name, rest := splitName(strings.Fields(c.in))
		if name != c.name || strings.Join(rest, " ") != c.rest || needsCluster(rest) != c.needs {
			t.Errorf("%q: name %q, rest %q, needs %v", c.in, name, rest, needsCluster(rest))
		}
	}
}

func TestFollowReportsTheChildsOwnError(t *testing.T) {
	var seen bytes.Buffer
	p := newProgress(&seen)
	if err := follow(strings.NewReader("doing a\ndid a\nerror port 6443 is taken\n"), p); err == nil || err.Error() != "port 6443 is taken" {
		t.Errorf("got %v", err)
	}
	if err := follow(strings.NewReader("did a\n"), p); !errors.Is(err, errEndedEarly) {
		t.Errorf("a child that just ends: got %v", err)
	}
	if err := follow(strings.NewReader("did b\npage http://127.0.0.1:7077/?token=a\nready\n"), p); err != nil || p.link != "http://127.0.0.1:7077/?token=a" {
		t.Error(err, p.link)
	}
	if !strings.Contains(seen.String(), "  b\n") {
		t.Errorf("steps were not shown: %q", seen.String())
	}
}

func TestCountSeesOnlyWhatIsThere(t *testing.T) {
	gpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{gpuResource: resource.MustParse(n)}
	}
	node := func(ready corev1.ConditionStatus, capacity, allocatable string, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + allocatable}, Spec: corev1.NodeSpec{Taints: taints}, Status: corev1.NodeStatus{
			Capacity: gpus(capacity), Allocatable: gpus(allocatable),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		}}
	}
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Limits: gpus("2")}}, {},
	}}}
	device := func(name, attribute, uuid string) resourcev1.Device {
		return resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{resourcev1.QualifiedName(attribute): {StringValue: &uuid}}}
	}
	slice := resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: dra.Driver, Devices: []resourcev1.Device{
		device("gpu-0", "uuid", "a"), device("gpu-1", "uuid", "b"), device("gpu-2", "uuid", "c"), {Name: "gpu-3"},
		device("mig-0", "parentUUID", "a"), device("mig-1", "parentUUID", "a"), // parts that the first could be divided into
	}}}
	foreign := resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "nic.example", Devices: make([]resourcev1.Device, 4)}}
	claim := resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: dra.Driver, Device: "mig-0"}, {Driver: dra.Driver, Device: "mig-1"}, {Driver: "nic.example"}}},
	}}}
	got := observed{
		nodes:  []corev1.Node{node(corev1.ConditionTrue, "8", "8", corev1.Taint{Key: "x"}), node(corev1.ConditionUnknown, "8", "0")},
		pods:   []corev1.Pod{pod},
		slices: []resourcev1.ResourceSlice{slice, foreign},
		claims: []resourcev1.ResourceClaim{claim, {}},
	}.count()
	want := clusterUse{Nodes: nodeCount{Total: 2, Ready: 1}, GPUs: gpuCount{Capacity: 20, Allocatable: 12, Requested: 3}, worker: "n0"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(clusterUse{})); diff != "" {
		t.Error(diff)
	}
}

func TestSuggestionsNameTheProgramAndTheCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		use  clusterUse
		want string // the beginning of the second suggestion
	}{
		{defaultName, clusterUse{GPUs: gpuCount{Allocatable: 32}}, "bin/berth kubectl run gpu-test "},
		{"l", clusterUse{worker: "w"}, "bin/berth kubectl --name l patch node w --subresource=status "},
		{"l", clusterUse{}, "bin/berth kubectl --name l run gpu-test "},
	} {
		got := suggestions("bin/berth", c.name, c.use)
		if len(got) != 3 || !strings.HasPrefix(got[1], c.want) {
			t.Errorf("%s: got %q, want %q...", c.name, got, c.want)
		}
	}
}
