package workload

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSpecRefuses(t *testing.T) {
	tests := []struct {
		name        string
		annotations map[string]string
		want        string
	}{
		{"unknown key", map[string]string{Prefix + "runs": "1m"},
			`annotation "sim.berth.dev/runs" is not known; known are ` + strings.Join(Annotations(), ", ")},
		{"empty key", map[string]string{Prefix: "1m"},
			`annotation "sim.berth.dev/" is not known; known are ` + strings.Join(Annotations(), ", ")},
		{"run without a unit", map[string]string{Prefix + "run": "90"},
			`annotation sim.berth.dev/run: "90" is not a duration above zero such as 90s, 10m or 1h30m`},
		{"negative run", map[string]string{Prefix + "run": "-1m"},
			`annotation sim.berth.dev/run: "-1m" is not a duration above zero such as 90s, 10m or 1h30m`},
		{"endless run", map[string]string{Prefix + "run": "2000000h"},
			`annotation sim.berth.dev/run: "2000000h" is not a duration above zero such as 90s, 10m or 1h30m`},
		{"step of a microsecond", map[string]string{Prefix + "step": "1us"},
			`annotation sim.berth.dev/step: "1us" is not a duration of at least 1ms such as 250ms or 2s`},
		{"load over 100", map[string]string{Prefix + "gpu-util": "101"},
			`annotation sim.berth.dev/gpu-util: "101" is not a percentage from 0 to 100, without a sign`},
		{"load with a sign", map[string]string{Prefix + "gpu-util": "50%"},
			`annotation sim.berth.dev/gpu-util: "50%" is not a percentage from 0 to 100, without a sign`},
		{"memory of milli-bytes", map[string]string{Prefix + "memory": "100m"},
			`annotation sim.berth.dev/memory: "100m" is not a quantity of bytes above zero such as 512Mi or 60Gi`},
		{"negative memory", map[string]string{Prefix + "gpu-memory": "-1Gi"},
			`annotation sim.berth.dev/gpu-memory: "-1Gi" is not a quantity of bytes above zero such as 512Mi or 60Gi`},
		{"empty world", map[string]string{Prefix + "world": "0"},
			`annotation sim.berth.dev/world: "0" is not a whole number of ranks from 1 to 100000`},
		{"group with a space", map[string]string{Prefix + "group": "a b"},
			`annotation sim.berth.dev/group: "a b" is not a name of 1 to 253 printable characters without spaces`},
		{"CUDA without a minor", map[string]string{Prefix + "cuda": "12"},
			`annotation sim.berth.dev/cuda: "12" is not a CUDA version such as 12.4`},
		{"yes for true", map[string]string{Prefix + "ignore-sigterm": "yes"},
			`annotation sim.berth.dev/ignore-sigterm: "yes" is not true or false`},
		{"exit code without failure", map[string]string{Prefix + "exit-code": "3", Prefix + "run": "1m"},
			"annotation sim.berth.dev/exit-code needs sim.berth.dev/fail-after: a program that finishes exits 0"},
		{"rank outside the world", map[string]string{Prefix + "rank": "4", Prefix + "world": "4"},
			"annotation sim.berth.dev/rank: 4 is not below sim.berth.dev/world, which is 4"},
		{"first of two by name", map[string]string{Prefix + "world": "x", Prefix + "rank": "y"},
			`annotation sim.berth.dev/rank: "y" is not a whole number from 0`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseSpec(test.annotations)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseSpec(t *testing.T) {
	got, err := ParseSpec(map[string]string{
		"kubernetes.io/other": "left alone", Prefix + "run": "1h", Prefix + "fail-after": "90s",
		Prefix + "exit-code": "3", Prefix + "gpu-util": "0", Prefix + "gpu-memory": "60Gi",
		Prefix + "memory": "512Mi", Prefix + "checkpoint": "5m", Prefix + "world": "8",
		Prefix + "step": "250ms", Prefix + "timeout": "30s", Prefix + "group": "llama",
		Prefix + "rank": "7", Prefix + "pull": "0s", Prefix + "cuda": "12.4",
		Prefix + "ignore-sigterm": "true",
	})
	want := Spec{
		Run: time.Hour, FailAfter: 90 * time.Second, ExitCode: 3, GPUUtil: 0, GPUMemory: 60 << 30,
		Memory: 512 << 20, Checkpoint: 5 * time.Minute, World: 8, Step: 250 * time.Millisecond,
		Timeout: 30 * time.Second, Group: "llama", Rank: 7, Pull: 0, CUDA: "12.4", IgnoreTerm: true,
		Batch: 256, RequestTime: 5 * time.Second,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, spec (-want +got):\n%s", err, diff)
	}
}

func TestParseSpecOfNothing(t *testing.T) {
	got, err := ParseSpec(nil)
	want := Spec{ExitCode: 1, GPUUtil: 90, Step: time.Second, Timeout: 10 * time.Minute, Rank: -1, Pull: -1, Batch: 256, RequestTime: 5 * time.Second}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v, spec (-want +got):\n%s", err, diff)
	}
}

// FuzzParseSpec: no text crashes the parser, and what it accepts can be run.
func FuzzParseSpec(f *testing.F) {
	for i, key := range Annotations() {
		f.Add(key, "10", "world", "4")
		f.Add(key, "1h30m", Annotations()[i], "60Gi")
	}
	f.Fuzz(func(t *testing.T, key, text, key2, text2 string) {
		s, err := ParseSpec(map[string]string{Prefix + key: text, key2: text2})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		if s.Step <= 0 || s.Timeout <= 0 || s.Run < 0 || s.steps() < 0 || s.Memory < 0 || s.GPUUtil > 100 {
			t.Errorf("accepted %+v", s)
		}
	})
}

// The page for users leaves out no annotation and invents none.
func TestDocsKnowEveryAnnotation(t *testing.T) {
	page, err := os.ReadFile("../../docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, key := range Annotations() {
		if !strings.Contains(text, "| `"+key+"` |") {
			t.Errorf("docs/workloads.md has no row for %s", key)
		}
	}
	if rows := strings.Count(text, "\n| `"+Prefix); rows != len(Annotations()) {
		t.Errorf("docs/workloads.md has %d rows, the parser knows %d keys", rows, len(Annotations()))
	}
}
