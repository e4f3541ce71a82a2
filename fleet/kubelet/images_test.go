package kubelet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	tests := []struct{ name, want, err string }{
		{name: "busybox", want: "docker.io/library/busybox:latest"},
		{name: "nvidia/cuda:13.1.0-base-ubuntu24.04", want: "docker.io/nvidia/cuda:13.1.0-base-ubuntu24.04"},
		{name: "localhost:5000/a/b", want: "localhost:5000/a/b:latest"},
		{name: "nvcr.io/nvidia/driver@" + digest, want: "nvcr.io/nvidia/driver@" + digest},
		{name: "registry.k8s.io/pause:3.10@" + digest, want: "registry.k8s.io/pause:3.10@" + digest},
		{name: "UPPER", err: "invalid reference format: repository name (library/UPPER) must be lowercase"},
		{name: "a b", err: "invalid reference format"},
		{name: "a:", err: "invalid reference format"},
		{name: "a@sha256:short", err: "invalid reference format"},
		{name: "", err: "invalid reference format"},
		{name: "/a", err: "invalid reference format"},
	}
	for _, tt := range tests {
		im, err := parseImage(tt.name)
		got := []string{im.String(), ""}
		if err != nil {
			got = []string{"", err.Error()}
		}
		if diff := cmp.Diff([]string{tt.want, tt.err}, got); diff != "" {
			t.Errorf("%q: %s", tt.name, diff)
		}
	}
}

func FuzzParseImage(f *testing.F) {
	for _, s := range []string{"busybox", "a/b:c", "x.y:5/z@sha256:00", "a:b/c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		im, err := parseImage(name)
		if err != nil {
			return
		}
		again, err := parseImage(im.String())
		if err != nil || again != im {
			t.Errorf("%q is read as %q, which is read as %q (%v)", name, im, again, err)
		}
	})
}

func TestNeedsCUDA(t *testing.T) {
	tests := map[string]string{
		"nvidia/cuda:13.1.0-base-ubuntu24.04":            "13.1",
		"pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime":  "12.8",
		"example.com/vllm:0.11-cu129":                    "12.9",
		"example.com/train:12.8":                         "",
		"nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-d": "",
	}
	got := map[string]string{}
	for name := range tests {
		im, err := parseImage(name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = im.needsCUDA()
	}
	if diff := cmp.Diff(tests, got); diff != "" {
		t.Error(diff)
	}
	if olderVersion("13.0", "12.8") || !olderVersion("12.8", "12.10") || olderVersion("12.8", "12.8") {
		t.Error("versions are compared by their numbers")
	}
}

func TestArgv(t *testing.T) {
	busybox, vllm := conductOf(image{repository: "library/busybox"}), conductOf(image{repository: "vllm/vllm-openai"})
	got := [][]string{
		busybox.argv(nil, nil),
		busybox.argv(nil, []string{"echo", "a"}),
		busybox.argv([]string{"sleep"}, []string{"1"}),
		vllm.argv(nil, []string{"--model", "m"}),
	}
	want := [][]string{{"sh"}, {"echo", "a"}, {"sleep", "1"}, {"vllm-openai", "--model", "m"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
