package inspect

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

var taken = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// some are facts with one object of every kind, and a few of what diagnosis reads.
func some() *facts.Facts {
	f := &facts.Facts{
		At: taken, Kubernetes: "v1.37.1", Unseen: []facts.Unseen{{Resource: "leases.coordination.k8s.io", Except: "team-a", Reason: "forbidden"}},
		Logs: map[string]string{"team-a/train-0/main": "step 1\n", "team-a/train-0/main/previous": "step 0\n"},
	}
	for _, k := range facts.Kinds {
		o := k.New()
		o.SetName("one")
		if k.Namespaced {
			o.SetNamespace("team-a")
		}
		if k.Resource == "configmaps" {
			o.SetNamespace(autoscalerNamespace)
			o.SetName(autoscalerConfigMap)
		}
		k.Add(&f.Objects, o)
	}
	f.ConfigMaps[0].Data = map[string]string{"status": "nodeGroups: []"}
	f.Nodes = append(f.Nodes, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", Labels: map[string]string{"nvidia.com/gpu.product": "H100"}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{gpuResource: resource.MustParse("8")}, Allocatable: corev1.ResourceList{gpuResource: resource.MustParse("7")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	})
	f.Pods = append(f.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-0", CreationTimestamp: metav1.NewTime(taken.Add(-time.Hour))},
		Spec:       corev1.PodSpec{NodeName: "gpu-1", Containers: []corev1.Container{{Name: "main", Image: "busybox:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpuResource: resource.MustParse("2")}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	})
	f.Foreign["Workload.kueue.x-k8s.io"][0].Object["spec"] = map[string]any{"podSets": []any{map[string]any{"count": int64(4)}}}
	return f
}

func written(t testing.TB, f *facts.Facts, o BundleOptions) ([]byte, *Manifest) {
	t.Helper()
	var b bytes.Buffer
	m, err := Write(&b, f, o)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), m
}

func read(data []byte) (*Bundle, error) {
	return readFrom(bufio.NewReader(bytes.NewReader(data)), int64(len(data)))
}

// unpacked are the files in a bundle, as any other program would get them.
func unpacked(t testing.TB, data []byte) (names []string, files map[string][]byte) {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files = make(map[string][]byte)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// packed is a bundle of any files.
func packed(t testing.TB, names []string, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBundleThereAndBack(t *testing.T) {
	f := some()
	o := BundleOptions{
		Berth: "v1", Cluster: "dev", Namespace: "team-a", Answers: map[string]json.RawMessage{"queues": json.RawMessage(`{"items":[{"used":12345678901234567}]}`)},
		Report: func(b *Bundle) ([]byte, error) { return []byte(fmt.Sprintf("# %d pods\n", len(b.Facts.Pods))), nil },
	}
	data, m := written(t, f, o)
	b, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, b.Manifest); diff != "" {
		t.Error(diff)
	}
	if m.Hash() != b.Manifest.Hash() || !strings.HasPrefix(m.Hash(), "sha256:") {
		t.Errorf("hash %s, was %s", b.Manifest.Hash(), m.Hash())
	}
	for _, k := range facts.Kinds {
		was, is := k.List(&f.Objects), k.List(&b.Facts.Objects)
		if len(was) != len(is) || m.Counts[k.Name()] != len(was) {
			t.Errorf("%s: %d objects, %d counted, were %d", k.Name(), len(is), m.Counts[k.Name()], len(was))
		}
	}
	if !b.Facts.At.Equal(taken) || b.Facts.Kubernetes != f.Kubernetes || b.Facts.Matches == nil {
		t.Errorf("at %s, Kubernetes %s", b.Facts.At, b.Facts.Kubernetes)
	}
	if diff := cmp.Diff(f.Logs, b.Facts.Logs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(f.Unseen, b.Facts.Unseen); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(f.Foreign["Workload.kueue.x-k8s.io"][0].Object["spec"], b.Facts.Foreign["Workload.kueue.x-k8s.io"][0].Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if got := b.Facts.ConfigMaps[0].Data["status"]; got != "nodeGroups: []" {
		t.Errorf("the autoscaler says %q", got)
	}
	if string(b.Answers["queues"]) != string(o.Answers["queues"]) || string(b.Report) != "# 2 pods\n" {
		t.Errorf("answers %s, report %s", b.Answers["queues"], b.Report)
	}
}

// The same facts, in whatever order, make the same bytes.
func TestBundleBytesAreTheSame(t *testing.T) {
	first, _ := written(t, some(), BundleOptions{})
	f := some()
	slices.Reverse(f.Pods)
	slices.Reverse(f.Nodes)
	second, _ := written(t, f, BundleOptions{})
	if !bytes.Equal(first, second) {
		t.Error("bytes differ")
	}
	r1, _ := written(t, some(), BundleOptions{Redact: NewRedaction(some(), []byte("k"))})
	r2, _ := written(t, some(), BundleOptions{Redact: NewRedaction(some(), []byte("k"))})
	r3, _ := written(t, some(), BundleOptions{Redact: NewRedaction(some(), nil)})
	if !bytes.Equal(r1, r2) || bytes.Equal(r1, r3) {
		t.Error("redacted bytes depend on something other than the key, or not on the key")
	}
}

func TestWriteLeavesTheFacts(t *testing.T) {
	f := secretFacts()
	before, _ := json.Marshal(f.Objects)
	written(t, f, BundleOptions{Redact: NewRedaction(f, nil)})
	if after, _ := json.Marshal(f.Objects); !bytes.Equal(before, after) {
		t.Error("the facts that were given are not as they were")
	}
}

// Whatever byte of the compressed file is changed: there is an error, or the content is as it was.
func TestEveryByteCounts(t *testing.T) {
	data, m := written(t, some(), BundleOptions{})
	for i := 0; i < len(data); i++ {
		bad := slices.Clone(data)
		bad[i] ^= 0x15
		if b, err := read(bad); err == nil && b.Manifest.Hash() != m.Hash() {
			t.Fatalf("byte %d was changed, and nobody noticed", i)
		}
	}
	for i := 0; i < len(data); i += 7 {
		if _, err := read(data[:i]); err == nil {
			t.Fatalf("%d of %d bytes are taken for all", i, len(data))
		}
	}
}

// A change inside, well compressed again, is an error that names the file.
func TestChangedFilesAreNamed(t *testing.T) {
	data, _ := written(t, some(), BundleOptions{Report: func(*Bundle) ([]byte, error) { return []byte("# all is well\n"), nil }})
	names, files := unpacked(t, data)
	if names[0] != manifestName || names[1] != hashName {
		t.Fatalf("files begin with %v", names[:2])
	}
	for _, name := range names {
		was := files[name]
		files[name] = slices.Clone(was)
		files[name][len(was)/2] ^= 1
		_, err := read(packed(t, names, files))
		want := name
		if name == hashName {
			want = manifestName // either may be the one that was changed
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s was changed: %v", name, err)
		}
		files[name] = was
	}
	if _, err := read(packed(t, names, files)); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for i := range names[1:] {
		if _, err := read(packed(t, slices.Delete(slices.Clone(names), i+1, i+2), files)); err == nil {
			t.Errorf("%s is gone, and nobody noticed", names[i+1])
		}
	}
}

func TestWhatIsNoBundle(t *testing.T) {
	good, m := written(t, some(), BundleOptions{})
	names, files := unpacked(t, good)
	with := func(change func(m *Manifest)) []byte {
		n := *m
		n.Files = slices.Clone(m.Files)
		change(&n)
		other := map[string][]byte{}
		for k, v := range files {
			other[k] = v
		}
		other[manifestName] = n.encode()
		other[hashName] = []byte(sum(n.encode()) + "  " + manifestName + "\n")
		return packed(t, names, other)
	}
	bomb := func(size int64) []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b)
		w := tar.NewWriter(z)
		n := Manifest{Format: 1, Files: []File{{Name: "objects/pods.jsonl", Size: size}}}
		for name, data := range map[string][]byte{manifestName: n.encode()} {
			_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data))})
			_, _ = w.Write(data)
		}
		hash := []byte(sum(n.encode()) + "  " + manifestName + "\n")
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: hashName, Size: int64(len(hash))})
		_, _ = w.Write(hash)
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "objects/pods.jsonl", Size: size})
		zero := make([]byte, 1<<20)
		for range size >> 20 {
			_, _ = w.Write(zero)
		}
		_ = errors.Join(w.Close(), z.Close())
		return b.Bytes()
	}
	// A tar ends where it says so: what comes behind its end is nothing, however much of it there is.
	tail := func(size int64) []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b)
		zero := make([]byte, 1<<20)
		for range size >> 20 {
			_, _ = z.Write(zero)
		}
		_ = z.Close()
		return slices.Concat(good, b.Bytes())
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"behind the end": {tail(100 << 20), "more than any bundle"},
		"empty":          {nil, "no bundle"},
		"text":           {[]byte("hello, this is not it"), "no bundle"},
		"other content":  {packed(t, []string{"a"}, map[string][]byte{"a": []byte("b")}), "no bundle"},
		"newer":          {with(func(m *Manifest) { m.Format = Format + 1 }), "use a newer Berth"},
		"no format":      {with(func(m *Manifest) { m.Format = 0 }), "no manifest"},
		"climbs":         {with(func(m *Manifest) { m.Files[0].Name = "../../etc/passwd" }), "../../etc/passwd"},
		"from the root":  {with(func(m *Manifest) { m.Files[0].Name = "/etc/passwd" }), "/etc/passwd"},
		"twice":          {with(func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) }), m.Files[0].Name},
		"huge file":      {with(func(m *Manifest) { m.Files[0].Size = 1 << 40 }), "more than the"},
		"negative":       {with(func(m *Manifest) { m.Files[0].Size = -1 }), "more than the"},
		"one more":       {packed(t, append(slices.Clone(names), "x"), files), `"x"`},
		"truncated":      {good[:len(good)/2], "not complete"},
		"bomb":           {bomb(100 << 20), "more than any bundle"},
		"larger than is": {with(func(m *Manifest) { m.Files[0].Size++ }), m.Files[0].Name},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
}

func FuzzReadBundle(f *testing.F) {
	data, _ := written(f, &facts.Facts{At: taken, Objects: facts.Objects{Pods: []*corev1.Pod{pod("a", "b")}}, Logs: map[string]string{"a/b/c": "d"}}, BundleOptions{})
	f.Add(data)
	f.Add(data[:len(data)/2])
	names, files := unpacked(f, data)
	f.Add(packed(f, names[:2], files))
	f.Add(append(slices.Clone(zstdMagic), 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := read(data)
		if err == nil && (b.Facts == nil || b.Manifest.Format != Format) {
			t.Error("neither a bundle nor an error")
		}
	})
}

// Inside the compression, where nearly no changed byte gets past the hashes, lines are what is left to get wrong.
func FuzzReadObjects(f *testing.F) {
	f.Add(0, []byte(`{"metadata":{"name":"a"}}`))
	f.Add(len(facts.Kinds)-1, []byte(`{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"a"}}`+"\n{}\n"))
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		k := facts.Kinds[max(kind, -(kind+1))%len(facts.Kinds)]
		var o facts.Objects
		_ = readObjects(k, data, &o, newBudget())
	})
}

// Names of planted secrets, each of which must not be anywhere in a bundle.
func secret(n int) string { return fmt.Sprintf("s3cr3t-hunter%02d-value", n) }

const secrets = 40

// secretFacts have a secret at every place where people leave them.
func secretFacts() *facts.Facts {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"spec":{"env":[{"name":"A","value":"` + secret(0) + `"}]}}`,
			"example.com/config":               `{"env":[{"name":"B","value":"` + secret(1) + `"}],"password":"` + secret(2) + `","secret":"` + secret(2) + `"}`,
			"example.com/api-token":            secret(3),
			"example.com/note":                 "use password=" + secret(4) + " to log in",
		}},
		Spec: corev1.PodSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "regcred"}},
			InitContainers:   []corev1.Container{{Name: "init", Env: []corev1.EnvVar{{Name: "DB", Value: secret(5)}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox:1",
				Command: []string{"sh", "-c", "login --password " + secret(6) + " && curl -H 'Authorization: Bearer " + secret(7) + "' https://user:" + secret(8) + "@example.com/x"},
				Args: []string{
					"--token", secret(9), "--hf-token=" + secret(10), "--api_key", secret(11), "--tokenizer", "llama", "--max-tokens", "512", "--nproc_per_node=8",
					"-u", "me:" + secret(12), "AWS_SECRET_ACCESS_KEY=" + secret(13), "--license-key=" + secret(14), "https://example.com/get?file=1&X-Amz-Signature=" + secret(15),
				},
				Env: []corev1.EnvVar{
					{Name: "WANDB_API_KEY", Value: secret(16)}, {Name: "ANYTHING", Value: secret(17)}, {Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}, {Name: "WORLD_SIZE", Value: "8"},
					{Name: "MASTER_ADDR", Value: "train-0"}, {Name: "NVIDIA_API_KEY", Value: secret(18)}, {Name: "MASTER_PASSWORD", Value: secret(19)},
					{Name: "REF", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "creds"}, Key: "token"}}},
				},
				LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Custom", Value: secret(20)}}}}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"ping", "--passphrase", secret(21)}}}},
			}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"accountKey": secret(22)}}}}},
		},
	}
	f := &facts.Facts{At: taken, Kubernetes: "v1.37.1", Unseen: []facts.Unseen{{Resource: "nodes", Reason: "Get https://bob:" + secret(23) + "@host/x: refused"}}}
	meta := metav1.ObjectMeta{Namespace: "team-a", Name: "train", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret(24)}}, Annotations: template.Annotations}
	f.Pods = []*corev1.Pod{{ObjectMeta: meta, Spec: template.Spec, Status: corev1.PodStatus{
		Message:           "token=" + secret(25),
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "error: api_key: '" + secret(26) + "' is not valid"}}}},
	}}}
	f.Jobs = []*batchv1.Job{{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}}
	f.CronJobs = []*batchv1.CronJob{{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}}}}
	f.Deployments = []*appsv1.Deployment{{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}}}
	f.Events = []*corev1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "e"}, Message: `pulling from https://robot:` + secret(27) + `@registry failed: {"password":"` + secret(28) + `"}`}}
	f.ConfigMaps = []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": "healthy"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "settings"}, Data: map[string]string{"x": secret(29)}, BinaryData: map[string][]byte{"y": []byte(secret(30))}},
	}
	f.StorageClasses = []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Parameters: map[string]string{"userPassword": secret(31), "csi.storage.k8s.io/provisioner-secret-name": "creds"}}}
	f.Foreign = map[string][]*unstructured.Unstructured{}
	for _, k := range facts.Kinds {
		if !k.Foreign {
			continue
		}
		u := k.New().(*unstructured.Unstructured)
		u.SetName("one")
		u.Object["spec"] = map[string]any{
			"userData": "#!/bin/sh\nexport X=" + secret(32), "runtimeEnvYAML": "env_vars: {X: " + secret(33) + "}", "entrypoint": "python x.py --secret " + secret(34),
			"rayStartParams": map[string]any{"redis-password": secret(35)},
			"template":       map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"env": []any{map[string]any{"name": "X", "value": secret(36)}}, "args": []any{"--token", secret(37)}}}}},
		}
		k.Add(&f.Objects, u)
	}
	f.Logs = map[string]string{"team-a/train/main": "step 1\nexport OPENAI_API_KEY=" + secret(38) + "\nAuthorization: Basic " + secret(39) + "\n" +
		"AKIAIOSFODNN7EXAMPLE ghp_0123456789abcdefghij eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nstep 2\n"}
	return f
}

// everything is all text in a bundle, names included.
func everything(t *testing.T, data []byte) string {
	names, files := unpacked(t, data)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(name + "\n")
		b.Write(files[name])
	}
	return b.String()
}

func TestNoSecretsInBundles(t *testing.T) {
	f := secretFacts()
	answers := map[string]json.RawMessage{"workloads": json.RawMessage(`{"items":[{"sentence":"token=` + secret(0) + `"}]}`)}
	for name, r := range map[string]*Redaction{"plain": nil, "redacted": NewRedaction(f, nil)} {
		t.Run(name, func(t *testing.T) {
			data, _ := written(t, f, BundleOptions{Answers: answers, Redact: r, Report: func(b *Bundle) ([]byte, error) { return Report(b, nil), nil }})
			all := everything(t, data)
			for n := range secrets {
				if at := strings.Index(all, secret(n)); at >= 0 {
					t.Errorf("secret %d is in the bundle: ...%s", n, all[max(0, at-120):at+len(secret(n))])
				}
			}
			for _, token := range []string{"AKIAIOSFODNN7EXAMPLE", "ghp_0123456789abcdefghij", "eyJhbGciOiJIUzI1NiJ9", "MIIabc"} {
				if strings.Contains(all, token) {
					t.Errorf("%s is in the bundle", token)
				}
			}
		})
	}
}

// What diagnosis needs is still there.
func TestWhatIsKept(t *testing.T) {
	data, _ := written(t, secretFacts(), BundleOptions{})
	b, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	c := b.Facts.Pods[0].Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	want := map[string]string{"WANDB_API_KEY": "", "ANYTHING": "", "NVIDIA_VISIBLE_DEVICES": "all", "WORLD_SIZE": "8", "MASTER_ADDR": "train-0", "NVIDIA_API_KEY": "", "MASTER_PASSWORD": "", "REF": ""}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"--token", masked, "--hf-token=" + masked, "--api_key", masked, "--tokenizer", masked, "--max-tokens", "512", "--nproc_per_node=8",
		"-u", masked, masked, "--license-key=" + masked, masked,
	}, c.Args); diff != "" {
		t.Error(diff)
	}
	if ref := c.Env[7].ValueFrom.SecretKeyRef; ref.Name != "creds" || ref.Key != "token" || b.Facts.Pods[0].Spec.ImagePullSecrets[0].Name != "regcred" {
		t.Errorf("names of secrets are gone: %v", ref)
	}
	if b.Facts.StorageClasses[0].Parameters["csi.storage.k8s.io/provisioner-secret-name"] != "creds" {
		t.Error("the name of a class's secret is gone")
	}
	if got := b.Facts.Logs["team-a/train/main"]; !strings.HasPrefix(got, "step 1\n") || !strings.HasSuffix(got, "step 2\n") {
		t.Errorf("log is %q", got)
	}
}

// Messages that checks read are no secrets, though they speak of some.
func TestOrdinaryMessagesStay(t *testing.T) {
	c := newCleaner(&facts.Facts{}, false)
	for _, s := range []string{
		`MountVolume.SetUp failed for volume "x" : secret "creds" not found`,
		`couldn't find key token in Secret team-a/creds`,
		`0/7 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 6 Insufficient nvidia.com/gpu. preemption: 0/7 nodes are available`,
		`Error creating: pods "x" is forbidden: exceeded quota: team-a, requested: requests.nvidia.com/gpu=8,secrets=1, used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=16`,
		`nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver`,
		`0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't match pod topology spread constraints.`,
		`Back-off pulling image "registry.example/train:v2.1@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"`,
		`User "system:serviceaccount:team-a:default" cannot list resource "pods" in API group "" in the namespace "team-b"`,
		`pod group is not ready, 1 Pending, 4 minAvailable; Pending: 1 Unschedulable`, `mkdir -p /data && httpd -p 8080`, `GET /api/v1/pods?limit=500&resourceVersion=0 200`,
		`step=100 loss=2.31 lr=3e-4 grad_norm=0.91 tokens_per_second: 41231`, `NAME   READY   STATUS    RESTARTS`,
		`torchrun --nproc_per_node=8 --master_port 29500 train.py --tokenizer-path /models/x`,
		`pull access denied for x/y, repository does not exist or may require authorization: server message: insufficient_scope`,
		`insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed`,
		`topology "default" allows to fit only 3 out of 4 pod(s). Total nodes: 16; excluded: resource "nvidia.com/gpu": 11`,
	} {
		if got := c.text.Text(s); got != s {
			t.Errorf("got  %s\nwant %s", got, s)
		}
	}
}

func TestCleanTwiceIsCleanOnce(t *testing.T) {
	first, _ := written(t, secretFacts(), BundleOptions{})
	b, err := read(first)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := written(t, b.Facts, BundleOptions{})
	if !bytes.Equal(first, second) {
		t.Error("a bundle of a bundle is another")
	}
}

func TestRedaction(t *testing.T) {
	f := &facts.Facts{At: taken, Logs: map[string]string{"apollo/llm-train-0/main": "connected to llm-train-1.llm-train.apollo.svc as bob@corp.example from 10.1.2.3\n"}}
	f.Namespaces = []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "apollo"}}, {ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}}
	f.Nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-1-2-3.corp.internal", Labels: map[string]string{
		"kubernetes.io/hostname": "ip-10-1-2-3.corp.internal", "team": "vision", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "gpu-pool": "a100",
	}}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-west-2a/i-0abcdef", Taints: []corev1.Taint{{Key: "team", Value: "vision", Effect: corev1.TaintEffectNoSchedule}}}}}
	f.StatefulSets = []*appsv1.StatefulSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "apollo", Name: "llm-train"}}}
	for i := range 2 {
		f.Pods = append(f.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "apollo", Name: fmt.Sprintf("llm-train-%d", i)},
			Spec:       corev1.PodSpec{NodeName: "ip-10-1-2-3.corp.internal", NodeSelector: map[string]string{"gpu-pool": "a100", "team": "vision"}, Containers: []corev1.Container{{Name: "main", Image: "harbor.corp.example/moonshot/llm-base:1.2-cuda12.4"}}},
			Status:     corev1.PodStatus{Message: `Back-off pulling image "harbor.corp.example/moonshot/llm-base:1.2-cuda12.4" on ip-10-1-2-3.corp.internal for apollo/llm-train-0`, PodIP: "10.1.2.9"},
		})
	}
	f.Pods[0].Labels = map[string]string{"example.com/campaign": "zeppelin"}
	f.Pods[0].Spec.Hostname = "starlight"
	f.Pods[0].Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "orion-creds"}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "hydra-settings"}}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/pegasus/data"}}},
	}
	f.Pods[0].Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cygnus-env"}}}}
	f.Pods[0].Status.Message += `; secret "orion-creds" not found; configmap "hydra-settings" not found`
	f.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: "nvidia-driver-daemonset"}}}
	r := NewRedaction(f, []byte("key"))
	data, m := written(t, f, BundleOptions{Redact: r, Cluster: "corp-prod", Namespace: "apollo", Answers: map[string]json.RawMessage{"namespaces/apollo/workloads/gang.llm-train": json.RawMessage(`{"metadata":{"name":"gang.llm-train"}}`)}})
	all := everything(t, data)
	for _, name := range []string{"apollo", "llm", "corp", "vision", "moonshot", "bob", "10.1.2", "10-1-2", "0abcdef", "harbor", "zeppelin", "starlight", "orion", "hydra", "pegasus", "cygnus"} {
		if at := strings.Index(all, name); at >= 0 {
			t.Errorf("%s is in the bundle: ...%s", name, all[max(0, at-80):min(len(all), at+80)])
		}
	}
	for _, word := range []string{"NVIDIA-A100-SXM4-80GB", `"gpu-pool":"a100"`, "nvidia-driver-daemonset", "gpu-operator", "kube-system", "cuda12.4", "Back-off pulling image"} {
		if !strings.Contains(all, word) {
			t.Errorf("%s is gone", word)
		}
	}
	b, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	p, set := b.Facts.Pods[0], b.Facts.StatefulSets[0]
	if !strings.HasPrefix(p.Name, set.Name+"-") || !strings.HasSuffix(p.Name, "-0") && !strings.HasSuffix(p.Name, "-1") {
		t.Errorf("pod %s is not of %s any more", p.Name, set.Name)
	}
	if p.Spec.NodeName != b.Facts.Nodes[0].Name || b.Facts.Nodes[0].Labels["kubernetes.io/hostname"] != p.Spec.NodeName || !strings.Contains(p.Status.Message, p.Spec.NodeName) || !strings.Contains(p.Status.Message, p.Spec.Containers[0].Image) {
		t.Errorf("names do not agree: %s, %s, %s", p.Spec.NodeName, b.Facts.Nodes[0].Name, p.Status.Message)
	}
	if p.Spec.NodeSelector["team"] != b.Facts.Nodes[0].Spec.Taints[0].Value {
		t.Error("teams do not agree")
	}
	if m.Namespace != p.Namespace || r.Name("apollo") != p.Namespace || m.Cluster != "" || !m.Redacted {
		t.Errorf("manifest says %+v", m)
	}
	if _, ok := b.Facts.Logs[p.Namespace+"/"+r.Name("llm-train-0")+"/main"]; !ok {
		t.Errorf("logs are of %v", b.Facts.Logs)
	}
	if _, ok := b.Answers["namespaces/"+p.Namespace+"/workloads/gang."+set.Name]; !ok {
		t.Errorf("answers are to %v", b.Answers)
	}
}

// What a pod logs, and what pods ask of nodes, must not keep a bundle from being written, whatever it is.
func TestRedactionHasABudget(t *testing.T) {
	f := some()
	f.Logs["team-a/train-0/main"] = strings.Repeat("a.", 32<<10)
	for i := range 6000 {
		f.Nodes = append(f.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%d", i), Labels: map[string]string{"example.com/place": fmt.Sprintf("place-of-things-%04d", i)}}})
		f.Pods = append(f.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("p-%d", i)}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"example.com/place": fmt.Sprintf("place-of-thinks-%04d", i)}}})
	}
	start := time.Now()
	written(t, f, BundleOptions{Redact: NewRedaction(f, nil)})
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

func TestReport(t *testing.T) {
	data, _ := written(t, some(), BundleOptions{Berth: "v1", Cluster: "dev", Report: func(b *Bundle) ([]byte, error) {
		return Report(b, []diagnose.Diagnosis{{
			Target: facts.Ref{Kind: "Job", Namespace: "team-a", Name: "train"}, State: facts.Pending, Layer: check.L3, Cause: "cluster-full", Owner: check.Scheduler,
			Summary: "a | b", Created: taken.Add(-time.Minute), Fixes: []diagnose.Fix{{Edit: "wait", Outcome: "it starts", Assumes: "nobody is faster"}},
		}}), nil
	}})
	b, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	got := string(b.Report)
	for _, want := range []string{
		"# Evidence of 2026-11-15 12:00:00 UTC\n", "from cluster dev, Kubernetes v1.37.1.\n",
		"| H100 | 1 | 8 | 8 | 7 | 7 | 2 | 5 |\n", "| (no GPU) | 1 |",
		"### L3 scheduling\n", `| job/team-a/train | pending | L3 | cluster-full | scheduler | 1m0s | a \| b | wait (tried: it starts) |`,
		"- job/team-a/train: wait; it starts, assuming that nobody is faster\n", "leases.coordination.k8s.io outside namespace team-a: forbidden",
		"Kueue ClusterQueues (1)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// A bundle from before queues were BerthQueues is read as if they had been.
func TestOlderBundlesHaveQueues(t *testing.T) {
	const name = "objects/queues.berth.dev.jsonl"
	files := map[string][]byte{name: []byte(`{"apiVersion":"berth.dev/v1alpha1","kind":"Queue","metadata":{"name":"q"}}` + "\n")}
	m := Manifest{Format: 2, Captured: taken, Counts: map[string]int{}, Unseen: []facts.Unseen{{Resource: "queues.berth.dev", Reason: "forbidden"}}, Files: []File{fileOf(name, files[name])}}
	files[manifestName] = m.encode()
	files[hashName] = []byte(sum(m.encode()) + "  " + manifestName + "\n")
	b, err := read(packed(t, []string{manifestName, hashName, name}, files))
	if err != nil {
		t.Fatal(err)
	}
	if q := b.Facts.ForeignNamed("BerthQueue.berth.dev", "", "q"); q == nil || q.GetKind() != "BerthQueue" {
		t.Errorf("queue %v", q)
	}
	if b.Facts.Unseen[0].Resource != "berthqueues.berth.dev" {
		t.Errorf("not seen: %v", b.Facts.Unseen)
	}
}

// What Berth wrote as data can be read from a bundle too, with the names that the bundle has.
func TestBundlesKeepTheDataOfConditions(t *testing.T) {
	mark := why.NewMarker([]byte("secret")).Mark("team-a/train-1")
	waits := report.Pending{
		Cause: why.OverQueueLimit, Verdict: why.Blocked, PromisedStart: taken,
		Gates:    []report.Gate{{Cause: why.OverQueueLimit, Object: "research", Resource: "nvidia.com/gpu", Need: 8, Have: 4, Limit: 16}, {Cause: why.LargerThanAnyNode, Lacks: []why.Lack{{Resource: "nvidia.com/gpu", Need: 8}}}},
		Refusals: []string{`pods "train-1" is forbidden: admission webhook "bind.example.com" denied the request`},
		Binding:  &report.Binding{Node: "gpu-1", State: report.BindingFails, Error: `failed calling webhook "bind.example.com": connection refused`},
	}
	evicted := report.Eviction{Cause: engine.Reclaimed, At: taken, For: mark, ForQueue: "research", Queue: "guests", Borrowed: &why.Amount{Resource: "nvidia.com/gpu", Value: 8}}
	f := some()
	f.Pods = append(f.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "train-1"}, Spec: corev1.PodSpec{SchedulerName: "berth"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "OverQueueLimit", Message: "needs 8"},
			waits.Condition(metav1.NewTime(taken)), report.Held{Node: "gpu-1", Mark: mark}.Condition(metav1.NewTime(taken)),
			{Type: "berth.dev/Eviction", Status: corev1.ConditionTrue, Reason: "Reclaimed", Message: evicted.Text()},
		}},
	})
	for name, r := range map[string]*Redaction{"plain": nil, "redacted": NewRedaction(f, nil)} {
		t.Run(name, func(t *testing.T) {
			data, _ := written(t, f, BundleOptions{Redact: r})
			b, err := read(data)
			if err != nil {
				t.Fatal(err)
			}
			p := b.Facts.Pods[slices.IndexFunc(b.Facts.Pods, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == "berth" })]
			got, ok := report.PendingOf(p)
			if !ok || got.Cause != waits.Cause || len(got.Gates) != 2 || got.Gates[0].Limit != 16 || len(got.Gates[1].Lacks) != 1 || got.Binding == nil || got.Binding.State != report.BindingFails || !strings.Contains(got.Binding.Error, "failed calling webhook") || len(got.Refusals) != 1 {
				t.Errorf("waits: %+v, %v", got, p.Status.Conditions)
			}
			held, ok := report.HeldOf(p)
			e, evicts := report.EvictionOf(p)
			if !ok || !evicts || held.Mark != mark || e.For != mark || e.Borrowed == nil || e.Borrowed.Value != 8 {
				t.Errorf("held %+v, evicted %+v, %v", held, e, p.Status.Conditions)
			}
		})
	}
}
