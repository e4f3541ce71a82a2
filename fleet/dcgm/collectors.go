package dcgm

import (
	"fmt"
	"strings"
)

// Collector is a counter as a list of collectors has it: of which type it is, and its help text.
type Collector struct{ Kind, Help string }

// Bounds of a list of collectors.
const (
	MaxCollectors = 64 << 10 // bytes
	maxLines      = 1000
)

// ParseCollectors reads a list of collectors, the file that DCGM_EXPORTER_COLLECTORS names: NAME, TYPE, HELP on each line, and
// comments behind #. Labels are read over. Fields that a simulated GPU does not tell may be in it, and have no lines on the page.
func ParseCollectors(text string) (map[string]Collector, error) {
	if len(text) > MaxCollectors || strings.Count(text, "\n") > maxLines {
		return nil, fmt.Errorf("collectors: more than %d bytes or %d lines, the limits", MaxCollectors, maxLines)
	}
	out := map[string]Collector{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, ",", 3)
		if len(fields) < 3 {
			return nil, fmt.Errorf("collectors: line %d: want NAME, TYPE, HELP", number)
		}
		name, kind, help := strings.TrimSpace(fields[0]), strings.TrimSpace(fields[1]), strings.TrimSpace(fields[2])
		switch {
		case !strings.HasPrefix(name, "DCGM_"):
			return nil, fmt.Errorf("collectors: line %d: could not find DCGM field", number)
		case kind == "label":
		case kind == "gauge" || kind == "counter" || kind == "histogram" || kind == "summary":
			out[name] = Collector{kind, strings.ReplaceAll(help, `\`, `\\`)}
		default:
			return nil, fmt.Errorf("collectors: line %d: could not find Prometheus metric type", number)
		}
	}
	return out, nil
}

// Default is the exporter's default list, which it reads where nobody names another.
const Default = "/etc/dcgm-exporter/default-counters.csv"

// optional are those counters of ours that the default list has as comments.
var optional = []string{
	"_VIOLATION", "DCGM_FI_DEV_ECC_", "_ERROR_COUNT_TOTAL",
	"DCGM_FI_PROF_SM_", "DCGM_FI_PROF_PIPE_FP",
}

// DefaultCollectors is what the default list has.
func DefaultCollectors() map[string]Collector {
	out := map[string]Collector{}
	for _, c := range counters {
		on := true
		for _, part := range optional {
			on = on && !strings.Contains(c.name, part)
		}
		if on {
			out[c.name] = Collector{c.kind, c.help}
		}
	}
	return out
}
