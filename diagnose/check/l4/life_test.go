package l4

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
)

func TestFindFlag(t *testing.T) {
	names := []string{"--nproc_per_node", "--nproc-per-node"}
	for _, c := range []struct {
		command []string
		value   int
		with    string // the item with 3 in its place
	}{
		{[]string{"torchrun", "--nproc_per_node=8", "train.py"}, 8, "--nproc_per_node=3"},
		{[]string{"torchrun", "--nproc-per-node", "8", "train.py"}, 8, "3"},
		{[]string{"sh", "-c", "set -e; torchrun --nproc_per_node 8 train.py --batch 8"}, 8, "set -e; torchrun --nproc_per_node 3 train.py --batch 8"},
		{[]string{"sh", "-c", "torchrun --nproc_per_node=16;"}, 16, "torchrun --nproc_per_node=3;"},
		{[]string{"torchrun", "--nproc_per_node=gpu"}, 0, ""},
		{[]string{"sh", "-c", "torchrun --nproc_per_node=$N"}, 0, ""},
		{[]string{"sh", "-c", "torchrun --my--nproc_per_node=8"}, 0, ""},
		{[]string{"sh", "-c", "torchrun --nproc_per_node=8:16"}, 0, ""},
		{[]string{"torchrun", "--nproc_per_node"}, 0, ""},
	} {
		f, ok := findFlag(c.command, nil, names...)
		if ok != (c.value > 0) || f.value != c.value {
			t.Errorf("%q: got %d, %v, want %d", c.command, f.value, ok, c.value)
		}
		if ok && f.with(3) != c.with {
			t.Errorf("%q with 3: got %q, want %q", c.command, f.with(3), c.with)
		}
	}
}

func FuzzFindFlag(f *testing.F) {
	f.Add("torchrun --nproc_per_node=8 train.py", 3)
	f.Add("--nproc_per_node 08", 1)
	f.Fuzz(func(t *testing.T, item string, value int) {
		if value <= 0 {
			return
		}
		found, ok := findFlag([]string{"sh", "-c", item}, nil, "--nproc_per_node")
		if !ok || found.item == "" || strings.Count(item, "--nproc_per_node") != 1 {
			return
		}
		again, ok := findFlag([]string{"sh", "-c", found.with(value)}, nil, "--nproc_per_node")
		if !ok || again.value != value {
			t.Errorf("%q with %d is %q, which reads %d, %v", item, value, found.with(value), again.value, ok)
		}
	})
}

func TestParseMissing(t *testing.T) {
	p := &corev1.Pod{}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "cfg", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "cert"}}},
	}
	for text, want := range map[string]missing{
		`configmap "settings" not found`:                                                                        {kind: "ConfigMap", name: "settings"},
		`secret "token" not found`:                                                                              {kind: "Secret", name: "token"},
		`couldn't find key mode in ConfigMap team-a/settings`:                                                   {kind: "ConfigMap", name: "settings", key: "mode"},
		`couldn't find key a.b in Secret team-a/token`:                                                          {kind: "Secret", name: "token", key: "a.b"},
		`MountVolume.SetUp failed for volume "tls" : secret "cert" not found`:                                   {kind: "Secret", name: "cert"},
		`MountVolume.SetUp failed for volume "cfg" : configmap references non-existent config key: model.json`:  {kind: "ConfigMap", name: "settings", key: "model.json"},
		`MountVolume.SetUp failed for volume "tls" : references non-existent secret key: tls.key`:               {kind: "Secret", name: "cert", key: "tls.key"},
		`MountVolume.SetUp failed for volume "gone" : references non-existent secret key: tls.key`:              {},
		`persistentvolumeclaim "data" not found`:                                                                {},
		`MountVolume.MountDevice failed for volume "pv-1" : rpc error: code = Internal desc = disk "x" is gone`: {},
	} {
		got, ok := parseMissing(p, text)
		if got != want || ok != (want != missing{}) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, ok, want)
		}
	}
}

func FuzzParseMissing(f *testing.F) {
	f.Add(`configmap "settings" not found`)
	f.Add(`couldn't find key mode in ConfigMap team-a/settings`)
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := parseMissing(&corev1.Pod{}, text)
		if ok && (m.name == "" || !strings.Contains(text, m.name) || !strings.Contains(text, m.key)) {
			t.Errorf("%q: made up %+v", text, m)
		}
	})
}

func TestStalled(t *testing.T) {
	for log, want := range map[string]string{
		"step 10/600 (1.7%)": "",
		"NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3":                                 "meeting",
		"NCCL INFO Bootstrap : waiting for ranks: 2 of 4 joined, missing 2 3\nNCCL INFO rank 0 Init COMPLETE": "",
		"step 70/600\nNCCL WARN rank 2 (a/b) is gone: step 76 cannot complete, all ranks are stalled":         "lost",
		"NCCL INFO step 76 : still waiting for rank 2 after 10s\n\n":                                          "lost",
		"NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.":                                                 "",
		"DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.":                "meeting",
		`10.0.0.1 - "POST /v1/completions HTTP/1.1" 200 OK`:                                                   "",
		"listening, waiting for client to connect":                                                            "",
		"": "",
	} {
		got := ""
		if s, ok := stalled(log); ok {
			got = map[bool]string{true: "meeting", false: "lost"}[s.meeting]
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", log, got, want)
		}
	}
}

func FuzzStalled(f *testing.F) {
	f.Add("step 70/600\nstill waiting for rank 2")
	f.Fuzz(func(t *testing.T, log string) {
		s, ok := stalled(log)
		if ok && (s.line == "" || !strings.Contains(log, s.line)) {
			t.Errorf("%q: made up %q", log, s.line)
		}
		if _, still := stalled(log + "\nstep 5/10\n"); still {
			t.Errorf("%q: a step after it does not count", log)
		}
	})
}

func TestPullFailure(t *testing.T) {
	for text, want := range map[string]check.Owner{
		`rpc error: code = NotFound desc = failed to resolve reference "x": x: not found`:                  check.ML,
		`manifest unknown: manifest unknown`:                                                               check.ML,
		`failed to fetch anonymous token: unexpected status: 401 Unauthorized`:                             check.ML,
		`pull access denied, repository does not exist or may require authorization`:                       check.ML,
		`Head "https://r/v2/": dial tcp 10.0.0.1:443: connect: connection refused`:                         check.Platform,
		`Head "https://r/v2/": net/http: TLS handshake timeout`:                                            check.Platform,
		`429 Too Many Requests - Server message: toomanyrequests`:                                          check.Platform,
		`write /var/lib/containerd/x: no space left on device`:                                             check.Platform,
		`no match for platform in manifest: not found`:                                                     check.ML,
		`received unexpected HTTP status: 503 Service Unavailable`:                                         check.Platform,
		`failed to verify certificate: x509: certificate signed by unknown authority`:                      check.Platform,
		`Back-off pulling image "x"`:                                                                       check.ML,
		`failed to extract layer: exec format error: wrong architecture`:                                   check.ML,
		`dial tcp: lookup registry.example.com on 10.96.0.10:53: server misbehaving`:                       check.Platform,
		`failed to copy: httpReadSeeker: failed open: failed to do request: context deadline exceeded`:     check.Platform,
		`failed to authorize: failed to fetch oauth token: unexpected status: 403 Forbidden`:               check.ML,
		`unexpected status from HEAD request to https://r/v2/x/manifests/1: 500 Internal Server Error`:     check.Platform,
		`error pulling image configuration: download failed after attempts=6: read: connection reset by x`: check.Platform,
	} {
		if _, got := pullFailure("ErrImagePull", text); got != want {
			t.Errorf("%s: owner is %s, want %s", text, got, want)
		}
	}
}
