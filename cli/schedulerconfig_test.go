package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/engine"
)

const configHead = "apiVersion: berth.dev/v1alpha1\nkind: SchedulerConfiguration\n"

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestABadConfigurationIsOneClearLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  `want apiVersion berth.dev/v1alpha1 and kind SchedulerConfiguration, got "" and ""`,
		"apiVersion: v1\nkind: ConfigMap\n": `got "v1" and "ConfigMap"`,
		configHead + "polcy: fifo\n":        `unknown field "polcy"`,
		configHead + "policy: fifo\npolicy: strict\n":      `"policy" already set`,
		configHead + "policy: fair\n":                      `--policy "fair": choose`,
		configHead + "gangGrace: 5\n":                      "json: cannot unmarshal number",
		configHead + "gangGrace: 0s\n":                     "--gang-grace 0s: give a time above 0",
		configHead + "backfillHeads: some\n":               `--backfill-heads "some"`,
		configHead + "levels: [{name: rack}]\n":            `--level "rack=": write NAME=LABEL`,
		configHead + "gpuRates: {H100: 0}\n":               `--gpu-rate "H100=0"`,
		configHead + "# " + strings.Repeat("x", maxConfig): "more than 65536 bytes",
		"\t": "found character that cannot start any token",
	} {
		code, _, stderr := small(t, "scheduler", "--config", configFile(t, text), "--kubeconfig", "nowhere")
		if code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "error: --config ") || !strings.Contains(stderr, want) {
			t.Errorf("%.80q: exit code %d, %s", text, code, stderr)
		}
	}
	if code, _, stderr := small(t, "scheduler", "--config", "nowhere"); code != exitUsage || !strings.Contains(stderr, "no such file") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The file fills what no flag says; flags go before it.
func TestAConfigurationStandsForTheFlags(t *testing.T) {
	file := configFile(t, configHead+`
schedulerName: second
schedulerNames: [second, other]
levels: [{name: block, label: example.com/block}, {name: rack, label: example.com/rack}]
gangGrace: 2m
policy: strict
backfillHeads: all
overtakeFor: 0s
halfLife: 168h
minRunTime: 10m
gpuRates: {H100: 2, A100: 1}
moves: "off"
packing: tight
leaderElect: false
listen: :10259
record: decisions
otlpEndpoint: http://collector:4318
shadow: true
`)
	o := &schedulerOptions{}
	cmd := newSchedulerFlags(o)
	if err := cmd.ParseFlags([]string{"--policy", "fifo", "--level", "rack=example.com/r"}); err != nil {
		t.Fatal(err)
	}
	_, c, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.fill(cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	got, err := o.options()
	if err != nil {
		t.Fatal(err)
	}
	want := engine.Config{
		Levels: []engine.Level{{Name: "rack", Label: "example.com/r"}}, Packing: engine.Tight, Policy: engine.FIFO, Heads: -1, Overtake: -1,
		HalfLife: 168 * time.Hour, MinRun: 10 * time.Minute, Rates: []engine.Rate{{Model: "A100", Units: 1}, {Model: "H100", Units: 2}}, Moves: engine.Moves{Off: true},
	}
	if diff := cmp.Diff(want, got.Engine); diff != "" {
		t.Error(diff)
	}
	if got.Name != "second" || !cmp.Equal(got.For, []string{"second", "other"}) || got.GangGrace != 2*time.Minute || !got.Shadow || got.Identity != "" || got.Decisions.Dir != "decisions" || o.listen != ":10259" || got.Traces == nil {
		t.Errorf("%+v, listen %q", got, o.listen)
	}
}

// TestProvisioningRequests reads the class of requests.
func TestProvisioningRequests(t *testing.T) {
	for text, want := range map[string]string{
		"none": "", "check-capacity": "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
		"queued-provisioning.gke.io": "queued-provisioning.gke.io",
	} {
		if got, err := parseRequests(text); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "check", "Check.Capacity", "a b.c"} {
		if got, err := parseRequests(text); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// Every flag that says how to schedule has a field: one that is forgotten could not be in the file.
func TestEveryFlagHasAField(t *testing.T) {
	_, c, err := readConfig(configFile(t, `{apiVersion: berth.dev/v1alpha1, kind: SchedulerConfiguration,
schedulerName: a, schedulerNames: [a], levels: [{name: a, label: a}], gangGrace: 1s, deviceBindingTimeout: 1s, policy: a, backfillHeads: 1, overtakeFor: 1s,
halfLife: 1s, minRunTime: 1s, gpuRates: {a: 1}, moves: 1, packing: a, leaderElect: true, listen: a, record: a, gpuMetrics: a, otlpEndpoint: a, gpuMetricsTokenFile: a, gpuMetricsCAFile: a, provisioningRequests: a, shadow: true}`))
	if err != nil {
		t.Fatal(err)
	}
	have := c.flags()
	// which cluster, where this process is, and the file itself are not the file's to say
	not := []string{"kubeconfig", "context", "name", "advertise-address", "config"}
	newCmdScheduler(Streams{}).Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := have[f.Name]; !ok && !strings.Contains(" "+strings.Join(not, " ")+" ", " "+f.Name+" ") {
			t.Errorf("--%s has no field", f.Name)
		}
	})
}

func TestOnlyAGoodConfigurationIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := configHead + "policy: fifo\n"
		file := configFile(t, first)
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		var log strings.Builder
		valid := func(c schedulerConfig) error {
			return c.fill(newCmdScheduler(Streams{}).Flags())
		}
		done := make(chan bool, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { done <- changed(ctx, file, []byte(first), valid, slog.New(slog.NewTextHandler(&log, nil))) }()
		time.Sleep(61 * time.Second)
		write(configHead + "polcy: strict\n")
		time.Sleep(61 * time.Second)
		write(first)
		time.Sleep(61 * time.Second)
		if n := strings.Count(log.String(), "is not taken"); n != 1 || len(done) != 0 {
			t.Errorf("a bad file was reported %d times, %d taken: %s", n, len(done), log.String())
		}
		write(configHead + "policy: strict\n")
		time.Sleep(61 * time.Second)
		if len(done) != 1 || !<-done {
			t.Error("a good file was not taken")
		}
	})
}

// A token is for a Prometheus, and travels over https alone.
func TestTokenForMetrics(t *testing.T) {
	file := configFile(t, "secret")
	for _, c := range []struct{ args, want string }{
		{"--gpu-metrics none --gpu-metrics-token-file " + file, "give the URL of a Prometheus"},
		{"--gpu-metrics-ca-file " + file, "give the URL of a Prometheus"},
		{"--gpu-metrics http://p:9090 --gpu-metrics-token-file " + file, "are for https"},
		{"--gpu-metrics https://p:9090 --gpu-metrics-token-file " + file + "-none", "--gpu-metrics-token-file: open "},
		{"--gpu-metrics https://p:9090 --gpu-metrics-ca-file " + file + "-none", "--gpu-metrics-ca-file: open "},
		{"--gpu-metrics https://p:9090 --gpu-metrics-token-file " + file, ""},
	} {
		o := &schedulerOptions{}
		if err := newSchedulerFlags(o).ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		got, err := o.options()
		if c.want == "" && (err != nil || got.GPUMetrics.TokenFile != file) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v %v", c.args, got.GPUMetrics, err)
		}
	}
}
