package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// resourceName is the full name of a resource; gpus is the one that the config counts.
func resourceName(short string, config *engine.Config) (string, bool) {
	switch short {
	case "cpu":
		return engine.CPU, true
	case "memory":
		return engine.Memory, true
	case "storage":
		return "ephemeral-storage", true
	case "gpus":
		return gpuName(config), true
	}
	if model, ok := strings.CutPrefix(short, "gpus@"); ok && model != "" {
		return engine.OfModel(gpuName(config), model), true
	}
	if base, flavor, ok := strings.Cut(short, "#"); ok && flavor != "" && !strings.Contains(flavor, "#") {
		name, known := resourceName(base, config)
		return engine.OfFlavor(name, flavor), known
	}
	return "", false
}

func gpuName(config *engine.Config) string { return cmp.Or(config.GPU, "nvidia.com/gpu") }

// amount reads "gpus=8", "gpus@H100=8" and "gpus=1.5" (in queues), "cpu=1500m", "memory=512Gi" and, for any other name, "resource=rdma/hca=1". The
// name is "" for a key that is none of these.
func amount(key, value string, config *engine.Config) (a engine.Amount, err error) {
	resource := ""
	if key == "resource" {
		i := strings.LastIndexByte(value, '=')
		if i < 1 {
			return a, fmt.Errorf("resource=%s: expected resource=NAME=AMOUNT", value)
		}
		resource, value = value[:i], value[i+1:]
	} else if resource, _ = resourceName(key, config); resource == "" {
		return a, nil
	}
	a.Resource = resource
	if strings.HasPrefix(key, "gpus") && strings.Contains(value, ".") {
		var parts int64
		parts, err = milli(value)
		a.Value, a.Milli = parts/1000, parts%1000
	} else {
		a.Value, err = quantity(resource, value)
	}
	if err != nil {
		return a, fmt.Errorf("%s=%s: %w", key, value, err)
	}
	return a, nil
}

// quantity reads a number in the unit that the engine counts the resource in.
func quantity(resource, text string) (int64, error) {
	if resource == engine.CPU {
		return milli(text)
	}
	digits := strings.TrimRight(text, "KMGTi")
	unit := map[string]int64{"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}[text[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || unit == 0 || n*unit/unit != n {
		return 0, fmt.Errorf("expected a whole number, or one with Ki, Mi, Gi or Ti")
	}
	return n * unit, nil
}

// milli reads cores: "4", "1.5" or "1500m".
func milli(text string) (int64, error) {
	if digits, ok := strings.CutSuffix(text, "m"); ok {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("expected cores like 4, 1.5 or 1500m")
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != f || f > 1e9 || f < -1e9 {
		return 0, fmt.Errorf("expected cores like 4, 1.5 or 1500m")
	}
	return int64(math.Round(f * 1000)), nil
}

// withAmount is r with one amount set; r itself is not written to.
func withAmount(r engine.Resources, a engine.Amount) engine.Resources {
	out := slices.Clone(r)
	for i := range out {
		if out[i].Resource == a.Resource {
			out[i] = a
			return out
		}
	}
	return append(out, a)
}

// ahead reads a time from now on: "+30s", "-5s".
func ahead(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || text[0] != '+' && text[0] != '-' {
		return 0, fmt.Errorf("expected a time from now like +30s")
	}
	return d, nil
}

func whole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("expected a whole number")
	}
	return n, nil
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
