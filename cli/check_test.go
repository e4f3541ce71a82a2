package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// manifests writes Jobs of one pod on that many GPUs, which are called by what becomes of them on a node of one GPU.
func manifests(t *testing.T) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	job := func(gpus string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n" +
			"      containers:\n      - {name: a, image: x, resources: {limits: {cpu: 1, nvidia.com/gpu: " + gpus + "}}}\n"
	}
	for name, text := range map[string]string{
		"starts": job("0"), "waits": job("1"), "never": job("2"), "both": job("1") + "---\n" + strings.Replace(job("2"), "name: j", "name: k", 1),
		"broken": "kind: [", "none": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "suspended": strings.Replace(job("1"), "spec:\n", "spec:\n  suspend: true\n", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string { return filepath.Join(dir, name+".yaml") }
}

// TestCheckExitCodes is the contract with CI: 0 fine, 1 stopped, 2 usage, 3 could not look, from a cluster and from a bundle.
func TestCheckExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	file := manifests(t)
	cluster := apiServer(t, smallCluster())
	bundle := bundleOf(t, cluster)
	blind := smallCluster()
	blind["/api/v1/nodes?limit=500"] = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	within := apiServer(t, blind)
	for _, at := range []string{"--kubeconfig " + cluster + " --dry-run=false", "--from " + bundle} {
		for _, c := range []struct {
			args string
			code int
			out  string
		}{
			{"-f " + file("starts"), exitOK, "starts"},
			{"-f " + file("waits"), exitOK, "waits"},
			{"-f " + file("waits") + " --fail-on never", exitOK, "waits"},
			{"-f " + file("waits") + " --fail-on waits", exitFailed, "waits"},
			{"-f " + file("starts") + " --fail-on waits", exitOK, "starts"},
			{"-f " + file("suspended") + " --fail-on waits", exitOK, "idle"},
			{"-f " + file("none") + " --fail-on waits", exitOK, "No workload in the manifests."},
			{"-f " + file("never"), exitFailed, "never"},
			{"-f " + file("both"), exitFailed, "never"},
			{"-f " + file("starts") + " -f " + file("never") + " --fail-on waits", exitFailed, "never"},
			{"-f " + file("never") + " -o json", exitFailed, `"verdict": "never"`},
			{"-f " + file("never") + " -o yaml", exitFailed, "verdict: never"},
			{"-f " + file("never") + " -o github", exitFailed, "::error file="},
			{"-f " + file("never") + " -o sarif", exitFailed, `"level": "error"`},
			{"-f " + file("waits") + " -o sarif", exitOK, `"level": "note"`},
			{"-f " + file("never") + " --timeout 1ns", exitFailed, "never"},
			{"-f " + file("starts") + " --timeout 0", exitOK, "starts"},
		} {
			if code, stdout, stderr := run(t, append(strings.Fields("check "+c.args), strings.Fields(at)...)...); code != c.code || !strings.Contains(stdout, c.out) || stderr != "" {
				t.Errorf("berth check %s %s: code %d, stdout\n%s\nstderr %q; want %d and %q", c.args, at, code, stdout, stderr, c.code, c.out)
			}
		}
	}
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"check -f " + file("starts") + " --dry-run=false --kubeconfig " + within, exitUnknown, "unknown", ""},
		{"check -f " + file("starts") + " --dry-run=false -o json --kubeconfig " + within, exitUnknown, `"verdict": "unknown"`, ""},
		{"check -f " + file("starts") + " --kubeconfig nowhere", exitUnknown, "", "error: "},
		{"check -f " + file("starts") + " --from nowhere.tar.zst", exitUnknown, "", "nowhere.tar.zst"},
		{"check -f " + file("starts") + " --name nobody", exitUnknown, "", `there is no cluster "nobody"`},
		{"check --kubeconfig " + cluster, exitUsage, "", "give manifests with -f FILE"},
		{"check job.yaml --kubeconfig " + cluster, exitUsage, "", "job.yaml"},
		{"check -f nowhere.yaml --kubeconfig " + cluster, exitUsage, "", "nowhere.yaml: no such file or directory"},
		{"check -f " + file("broken") + " --kubeconfig " + cluster, exitUsage, "", "broken.yaml:1"},
		{"check -f " + file("starts") + " --fail-on soon", exitUsage, "", `--fail-on "soon": use never or waits`},
		{"check -f " + file("starts") + " --timeout -1s", exitUsage, "", "--timeout -1s"},
		{"check -f " + file("starts") + " -o csv", exitUsage, "", `--output "csv"`},
		{"check -f " + file("starts") + " --fleet nosuch", exitUsage, "", "neither a preset nor a file"},
		{"check -f " + file("starts") + " --fleet lab --from x", exitUsage, "", "fleet"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.errs == "" && stderr != "" || c.out == "" && stdout != "" {
			t.Errorf("berth %s: code %d, stdout\n%s\nstderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
}

// TestCheckSaysUntilWhen has the work that holds the only GPU say how long it runs.
func TestCheckSaysUntilWhen(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	cluster := smallCluster()
	pods := cluster["/api/v1/pods?limit=500"].(corev1.PodList)
	pods.Items = pods.Items[:1]
	pods.Items[0].Spec.ActiveDeadlineSeconds = new(int64(6000))
	started := pods.Items[0].CreationTimestamp
	pods.Items[0].Status.StartTime = &started // an hour ago
	cluster["/api/v1/pods?limit=500"] = pods
	kubeconfig := apiServer(t, cluster)
	code, stdout, _ := run(t, "check", "--dry-run=false", "-f", manifests(t)("waits"), "--kubeconfig", kubeconfig)
	for _, want := range []string{"for:   a/llm-first holds 1 nvidia.com/gpu", "until: ", ", in 40m0s: pod a/llm-first has a deadline"} {
		if code != exitOK || !strings.Contains(strings.ReplaceAll(stdout, "in 39m59s", "in 40m0s"), want) {
			t.Errorf("code %d, no %q in\n%s", code, want, stdout)
		}
	}
	_, stdout, _ = run(t, "check", "--dry-run=false", "-f", manifests(t)("waits"), "--kubeconfig", kubeconfig, "--timeout", time.Nanosecond.String())
	if want := "until: not estimated: the time for it was up\n"; !strings.Contains(stdout, want) {
		t.Errorf("no %q in\n%s", want, stdout)
	}
}

func TestWhatifExitCodes(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	file := manifests(t)
	cluster := apiServer(t, smallCluster())
	bundle := bundleOf(t, cluster)
	blind := smallCluster()
	blind["/api/v1/pods?limit=500"] = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	within := apiServer(t, blind)
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
	}{
		{"whatif -f " + file("waits") + " --kubeconfig " + cluster, exitOK, "waits", ""},
		{"whatif -f " + file("never") + " --from " + bundle, exitOK, "waits", ""},
		{"whatif --drain gpu-1 --from " + bundle, exitOK, "drain node gpu-1: 0 pods to place again, 1 pod that no controller makes again", ""},
		{"whatif --drain gpu-1 -o json --kubeconfig " + cluster, exitOK, `"kind": "WhatIf"`, ""},
		{"whatif --kubeconfig " + cluster, exitUsage, "", "give --add-nodes, --drain, --quota or -f"},
		{"whatif --drain gpu-2 --kubeconfig " + cluster, exitUsage, "", "there is no node gpu-2; there are gpu-1"},
		{"whatif --add-nodes h100=x --kubeconfig " + cluster, exitUsage, "", "give --add-nodes POOL=N"},
		{"whatif --add-nodes h100=-1 --kubeconfig " + cluster, exitUsage, "", "give --add-nodes POOL=N"},
		{"whatif --quota a=1 --kubeconfig " + cluster, exitUsage, "", "there is no queue a"},
		{"whatif -f " + file("broken") + " --kubeconfig " + cluster, exitUsage, "", "broken.yaml:1"},
		{"whatif --drain gpu-1 -o name --kubeconfig " + cluster, exitUsage, "", `--output "name"`},
		{"whatif --drain gpu-1 --kubeconfig nowhere", exitUnknown, "", "error: "},
		{"adopt --from kai --from-bundle " + bundle, exitOK, "Nothing here is of kai", ""},
		{"adopt --from volcano -o json --kubeconfig " + cluster, exitOK, `"kind": "Adoption"`, ""},
		{"adopt --kubeconfig " + cluster, exitUsage, "", "adopt from whom? give --from with one of coscheduling, kai, kueue, volcano"},
		{"adopt --from slurm --kubeconfig " + cluster, exitUsage, "", `--from "slurm": use one of coscheduling, kai, kueue, volcano`},
		{"adopt --from kai --dry-run=false --kubeconfig " + cluster, exitUsage, "", "berth adopt changes nothing"},
		{"adopt --from kai -o name --kubeconfig " + cluster, exitUsage, "", `--output "name"`},
		{"adopt --from kai --from-bundle nowhere.tar.zst", exitUnknown, "", "nowhere.tar.zst"},
		{"adopt --from kai --kubeconfig " + within, exitUnknown, "", "could not be read: nothing can be planned"},
		{"whatif --drain gpu-1 --from nowhere.tar.zst", exitUnknown, "", "nowhere.tar.zst"},
		{"whatif --drain gpu-1 --kubeconfig " + within, exitUnknown, "", "could not be read: nothing can be planned"},
	} {
		code, stdout, stderr := run(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) || c.errs == "" && stderr != "" || c.out == "" && stdout != "" {
			t.Errorf("berth %s: code %d, stdout\n%s\nstderr %q; want %d, %q, %q", c.args, code, stdout, stderr, c.code, c.out, c.errs)
		}
	}
}

// TestCheckAndWhatifComplete asks a shell's questions about every flag that has a few values.
func TestCheckAndWhatifComplete(t *testing.T) {
	t.Setenv("BERTH_HOME", t.TempDir())
	for args, want := range map[string]string{
		"check --fail-on w": "waits\n", "check -o s": "sarif\n", "check --fleet research": "research-128\n", "doctor -o n": "name\n", "whatif -o w": "wide\n", "adopt --from k": "kai\nkueue\n",
		"whatif --fleet lab --drain kwok-gpu-h": "kwok-gpu-h100-0\n", "whatif --fleet lab --add-nodes h1": "h100=\n", "whatif --from nowhere --quota x": ":4\n",
	} {
		code, stdout, _ := run(t, append([]string{"__complete"}, strings.Fields(args)...)...)
		if code != exitOK || !strings.Contains("\n"+stdout, "\n"+want) { // shells leave out what does not begin as the word does
			t.Errorf("berth %s: code %d, %q, want %q", args, code, stdout, want)
		}
	}
}
