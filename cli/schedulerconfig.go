package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// configKind is the kind of the scheduler's configuration file.
const configKind = "SchedulerConfiguration"

// maxConfig is the most bytes of a configuration file; rates of a thousand models are far below.
const maxConfig = 64 << 10

// schedulerConfig is the file of `berth scheduler --config`. Each field stands for the flag beside it and means what the flag
// means; a flag that is given goes before the file. Fields that are left out are as without the file.
type schedulerConfig struct {
	APIVersion    string              `json:"apiVersion"`
	Kind          string              `json:"kind"`
	Name          *string             `json:"schedulerName"`  // --scheduler-name
	For           []string            `json:"schedulerNames"` // --for
	Levels        []engine.Level      `json:"levels"`         // --level
	GangGrace     *metav1.Duration    `json:"gangGrace"`
	DeviceTimeout *metav1.Duration    `json:"deviceBindingTimeout"`
	Policy        *string             `json:"policy"`
	BackfillHeads *intstr.IntOrString `json:"backfillHeads"`
	OvertakeFor   *metav1.Duration    `json:"overtakeFor"`
	HalfLife      *metav1.Duration    `json:"halfLife"`
	MinRunTime    *metav1.Duration    `json:"minRunTime"`
	GPURates      map[string]int64    `json:"gpuRates"` // --gpu-rate
	Moves         *intstr.IntOrString `json:"moves"`
	Packing       *string             `json:"packing"`
	LeaderElect   *bool               `json:"leaderElect"`
	Listen        *string             `json:"listen"`
	Record        *string             `json:"record"`
	GPUMetrics    *string             `json:"gpuMetrics"`
	Requests      *string             `json:"provisioningRequests"`
	MetricsToken  *string             `json:"gpuMetricsTokenFile"`
	MetricsCA     *string             `json:"gpuMetricsCAFile"`
	OTLPEndpoint  *string             `json:"otlpEndpoint"`
	Shadow        *bool               `json:"shadow"`
}

// readConfig reads the file strictly: a field that nobody knows, or one given twice, is an error.
func readConfig(file string) ([]byte, schedulerConfig, error) {
	var c schedulerConfig
	f, err := os.Open(file)
	if err != nil {
		return nil, c, fmt.Errorf("--config: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return nil, c, fmt.Errorf("--config: %w", err)
	case len(text) > maxConfig:
		return nil, c, fmt.Errorf("--config %s: it has more than %d bytes", file, maxConfig)
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, c, fmt.Errorf("--config %s: %s", file, parseTrouble(err))
	}
	if c.APIVersion != v1alpha1.GroupVersion.String() || c.Kind != configKind {
		return nil, c, fmt.Errorf("--config %s: want apiVersion %s and kind %s, got %q and %q", file, v1alpha1.GroupVersion, configKind, c.APIVersion, c.Kind)
	}
	return text, c, nil
}

// parseTrouble is what is wrong with the text of a file, on one line.
func parseTrouble(err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "error unmarshaling JSON: ")), " ")
}

// flags are the values of the file, by the flag that each stands for.
func (c *schedulerConfig) flags() map[string][]string {
	out := make(map[string][]string)
	text := func(flag string, v *string) {
		if v != nil {
			out[flag] = []string{*v}
		}
	}
	span := func(flag string, v *metav1.Duration) {
		if v != nil {
			out[flag] = []string{v.Duration.String()}
		}
	}
	either := func(flag string, v *intstr.IntOrString) {
		if v != nil {
			out[flag] = []string{v.String()}
		}
	}
	yes := func(flag string, v *bool) {
		if v != nil {
			out[flag] = []string{strconv.FormatBool(*v)}
		}
	}
	text("scheduler-name", c.Name)
	text("policy", c.Policy)
	text("packing", c.Packing)
	text("listen", c.Listen)
	text("record", c.Record)
	text("gpu-metrics", c.GPUMetrics)
	text("provisioning-requests", c.Requests)
	text("gpu-metrics-token-file", c.MetricsToken)
	text("gpu-metrics-ca-file", c.MetricsCA)
	text("otlp-endpoint", c.OTLPEndpoint)
	span("gang-grace", c.GangGrace)
	span("device-binding-timeout", c.DeviceTimeout)
	span("overtake-for", c.OvertakeFor)
	span("half-life", c.HalfLife)
	span("min-run-time", c.MinRunTime)
	either("backfill-heads", c.BackfillHeads)
	either("moves", c.Moves)
	yes("leader-elect", c.LeaderElect)
	yes("shadow", c.Shadow)
	if c.For != nil {
		out["for"] = c.For
	}
	for _, l := range c.Levels {
		out["level"] = append(out["level"], l.Name+"="+l.Label)
	}
	for _, model := range slices.Sorted(maps.Keys(c.GPURates)) {
		out["gpu-rate"] = append(out["gpu-rate"], fmt.Sprintf("%s=%d", model, c.GPURates[model]))
	}
	return out
}

// fill gives the flags that nobody wrote the values of the file.
func (c *schedulerConfig) fill(given *pflag.FlagSet) error {
	values := c.flags()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		flag := given.Lookup(name)
		if flag.Changed {
			continue
		}
		var err error
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			err = list.Replace(values[name])
		} else {
			err = flag.Value.Set(values[name][0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// configEvery is how often the file is looked at. A ConfigMap that is mounted changes within about a minute anyway.
const configEvery = 10 * time.Second

// changed ends once the file says something else that valid accepts, or with ctx. A file that cannot be read, or that says
// something wrong, is reported once and changes nothing.
func changed(ctx context.Context, file string, was []byte, valid func(schedulerConfig) error, log *slog.Logger) bool {
	said := ""
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(configEvery):
		}
		text, c, err := readConfig(file)
		if err == nil && !bytes.Equal(text, was) {
			if err = valid(c); err == nil {
				return true
			}
		}
		switch {
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			log.Error("the configuration file is not taken; the one before stays in force", "err", err)
		}
	}
}
