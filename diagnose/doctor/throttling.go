package doctor

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var throttlingItem = Item{
	Code: "throttling", Title: "no GPU is slowed down by heat or power", Owner: check.Platform, Needs: []string{"nodes"}, Find: throttlingFound,
	Meaning: "A GPU that lowers its clock slows down every GPU that trains with it.",
}

var aboutThrottling = regexp.MustCompile(`(?i)throttl|thermal|slowdown|power brake`)

// clockEvents are bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS, and how DCGM_EXP_CLOCK_EVENTS_COUNT calls them. Idle GPUs,
// clocks that were set on purpose and the power cap, which every busy GPU reaches, are no fault.
var clockEvents = []struct {
	bit  uint64
	name string
	text string
}{
	{0x08, "hw_slowdown", "slowed down by the hardware (heat, power or an external brake)"},
	{0x20, "sw_thermal_slowdown", "slowed down by the driver for heat"},
	{0x40, "hw_thermal_slowdown", "slowed down by the hardware for heat"},
	{0x80, "hw_power_brake_slowdown", "slowed down by the power brake of the machine"},
}

const cool = "check fans, airflow and power supplies of the machine; drain it if GPUs of others train with it"

func throttlingFound(c *Cluster) Result {
	faults := c.conditionFaults(aboutThrottling, "the node's health agent reports throttling", cool)
	for i := range c.devices {
		faults = append(faults, c.devices[i].throttled()...)
	}
	return Result{Findings: findings(faults), Blind: c.unmeasured("throttle"), Looked: wording.Number(len(c.devices), "GPU") + " measured"}
}

func (m *measured) throttled() (out []fault) {
	add := func(severity Severity, text, metric string, value float64) {
		out = append(out, fault{severity: severity, text: text, next: cool, object: m.object(), gpu: m.gpu, evidence: m.evidence(metric, value)})
	}
	for _, metric := range []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"} {
		v, ok := m.value(metric)
		if !ok || v < 0 || v > 1<<52 {
			continue
		}
		for _, e := range clockEvents {
			if uint64(v)&e.bit != 0 {
				add(Warn, e.text, metric, v)
			}
		}
	}
	counts := m.values("DCGM_EXP_CLOCK_EVENTS_COUNT", "clock_event")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		for _, e := range clockEvents {
			if strings.EqualFold(e.name, name) {
				add(Warn, e.text, "DCGM_EXP_CLOCK_EVENTS_COUNT", counts[name])
			}
		}
	}
	limit, known := m.value("DCGM_FI_DEV_SLOWDOWN_TEMP")
	if v, ok := m.value("DCGM_FI_DEV_GPU_TEMP"); ok && known && limit > 0 && v >= limit {
		add(Warn, "as hot as the GPU's slowdown temperature", "DCGM_FI_DEV_GPU_TEMP", v)
	}
	if v, ok := m.value("DCGM_FI_DEV_THERMAL_VIOLATION"); ok && v > 0 && len(out) == 0 {
		add(Note, "was slowed down for heat since the driver was loaded", "DCGM_FI_DEV_THERMAL_VIOLATION", v)
	}
	return out
}
