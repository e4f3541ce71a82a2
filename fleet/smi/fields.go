package smi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// stamp is the form of timestamps in queries.
const stamp = "2006/01/02 15:04:05.000"

// gpuFields are the properties of --query-gpu, in the order in which the real program
// documents them. What a simulated GPU has no notion of is there where scripts ask for it, with
// the value of a healthy, unconfigured board.
func gpuFields() []field[view] {
	return slices.Concat(identityFields(), pciFields(), stateFields(), memoryFields(), eccFields(), powerFields(), clockFields(), modeFields())
}

func identityFields() []field[view] {
	return []field[view]{
		{"timestamp", "", "", func(r *run, _ view) string { return r.host.Now.Format(stamp) }},
		{"driver_version", "", "", func(r *run, _ view) string { return r.host.Driver.Version }},
		{"count", "", "", func(_ *run, v view) string { return fmt.Sprint(v.count) }},
		{"name", "gpu_name", "", func(_ *run, v view) string { return v.Model.Product }},
		{"serial", "gpu_serial", "", func(_ *run, v view) string { return v.serial() }},
		{"uuid", "gpu_uuid", "", func(_ *run, v view) string { return v.UUID }},
		{"index", "", "", func(_ *run, v view) string { return fmt.Sprint(v.shown) }},
	}
}

// serial is printed on data-center boards only.
func (v view) serial() string {
	if v.Model.Consumer {
		return na
	}
	return v.Serial
}

func pciFields() []field[view] {
	return []field[view]{
		{"pci.bus_id", "gpu_bus_id", "", func(_ *run, v view) string { return v.BusID }},
		{"pci.domain", "", "", func(_ *run, v view) string { return "0x" + v.pci().domain }},
		{"pci.bus", "", "", func(_ *run, v view) string { return "0x" + v.pci().bus }},
		{"pci.device", "", "", func(_ *run, v view) string { return "0x" + v.pci().device }},
		{"pcie.link.gen.current", "", "", func(_ *run, v view) string { return pcieGeneration(v.Model) }},
		{"pcie.link.gen.max", "", "", func(_ *run, v view) string { return pcieGeneration(v.Model) }},
		{"pcie.link.gen.gpucurrent", "", "", func(_ *run, v view) string { return pcieGeneration(v.Model) }},
		{"pcie.link.gen.gpumax", "", "", func(_ *run, v view) string { return pcieGeneration(v.Model) }},
		{"pcie.link.width.current", "", "", fixed("16")},
		{"pcie.link.width.max", "", "", fixed("16")},
	}
}

// pciAddress is a bus id in parts, without 0x.
type pciAddress struct{ domain, bus, device string }

// pci takes the bus id apart: 00000000:0A:00.0.
func (v view) pci() pciAddress {
	domain, rest, _ := strings.Cut(v.BusID, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	device, _, _ := strings.Cut(rest, ".")
	return pciAddress{domain: domain[max(0, len(domain)-4):], bus: bus, device: device}
}

func pcieGeneration(m gpu.Model) string { return fmt.Sprint(m.PCIeGeneration()) }

func stateFields() []field[view] {
	return []field[view]{
		{"display_mode", "", "", fixed("Disabled")},
		{"display_attached", "", "", fixed("No")},
		{"display_active", "", "", fixed("Disabled")},
		{"persistence_mode", "", "", fixed("Enabled")},
		{"accounting.mode", "", "", fixed("Disabled")},
		{"accounting.buffer_size", "", "", fixed("4000")},
		{"driver_model.current", "", "", fixed(na)},
		{"driver_model.pending", "", "", fixed(na)},
		{"gpu_recovery_action", "", "", fixed("None")},
		{"fan.speed", "", "%", func(_ *run, v view) string { return v.fan() }},
		{"pstate", "", "", func(_ *run, v view) string { return v.State() }},
		{"clocks_event_reasons.active", "clocks_throttle_reasons.active", "", func(_ *run, v view) string { return v.clockReasons() }},
		{"clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle", "", func(_ *run, v view) string { return active(!v.Busy()) }},
		{"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "", func(_ *run, v view) string { return active(v.PowerCapped()) }},
		{"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "", func(_ *run, v view) string { return active(v.Trouble.Slowed()) }},
		{"clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown", "", func(_ *run, v view) string { return active(v.Trouble.Thermal) }},
		{"clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown", "", func(_ *run, v view) string { return active(v.Trouble.Brake) }},
		{"clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown", "", fixed(active(false))},
		{"clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost", "", fixed(active(false))},
	}
}

// clockReasons is NVML's bit mask: bit 0 is "idle", bit 2 the power limit, bit 3 a slowdown by hardware, which bit 6 puts down to
// heat and bit 7 to the power supply.
func (v view) clockReasons() string {
	mask := 0
	switch {
	case !v.Busy():
		mask = 1
	case v.PowerCapped():
		mask = 4
	}
	if v.Trouble.Thermal {
		mask |= 0x48
	}
	if v.Trouble.Brake {
		mask |= 0x88
	}
	return fmt.Sprintf("0x%016x", mask)
}

func active(on bool) string {
	if on {
		return "Active"
	}
	return "Not Active"
}

func memoryFields() []field[view] {
	return []field[view]{
		{"memory.total", "", "MiB", func(_ *run, v view) string { return fmt.Sprint(v.MemoryMiB) }},
		{"memory.reserved", "", "MiB", func(_ *run, v view) string { return fmt.Sprint(v.ReservedMiB()) }},
		{"memory.used", "", "MiB", func(_ *run, v view) string { return fmt.Sprint(v.MemUsedMiB) }},
		{"memory.free", "", "MiB", func(_ *run, v view) string { return fmt.Sprint(v.FreeMiB()) }},
		{"compute_mode", "", "", fixed("Default")},
		{"compute_cap", "", "", func(_ *run, v view) string { return v.Model.Compute }},
		{"utilization.gpu", "", "%", func(_ *run, v view) string { return v.utilization("") }},
		{"utilization.memory", "", "%", func(_ *run, v view) string { return fmt.Sprint(v.MemUtilPercent) }},
		{"utilization.encoder", "", "%", fixed("0")},
		{"utilization.decoder", "", "%", fixed("0")},
		{"utilization.jpeg", "", "%", fixed("0")},
		{"utilization.ofa", "", "%", fixed("0")},
		{"encoder.stats.sessionCount", "", "", fixed("0")},
	}
}

func eccFields() []field[view] {
	out := []field[view]{
		{"ecc.mode.current", "", "", func(_ *run, v view) string { return v.eccMode() }},
		{"ecc.mode.pending", "", "", func(_ *run, v view) string { return v.eccMode() }},
	}
	for _, kind := range []string{"corrected", "uncorrected"} {
		for _, span := range []string{"volatile", "aggregate"} {
			for _, where := range []string{"device_memory", "dram", "sram", "total"} {
				name := strings.Join([]string{"ecc.errors", kind, span, where}, ".")
				count := view.eccErrors
				if kind == "uncorrected" && where != "sram" {
					count = view.uncorrected
				}
				out = append(out, field[view]{name, "", "", func(_ *run, v view) string { return count(v) }})
			}
		}
	}
	return append(out,
		field[view]{"remapped_rows.correctable", "", "", func(_ *run, v view) string { return v.remapped("0") }},
		field[view]{"remapped_rows.uncorrectable", "", "", func(_ *run, v view) string { return v.remapped(fmt.Sprint(v.Trouble.RemappedRows)) }},
		field[view]{"remapped_rows.pending", "", "", func(_ *run, v view) string { return v.remapped(yes(v.Trouble.RemappedRows > 0)) }},
		field[view]{"remapped_rows.failure", "", "", func(_ *run, v view) string { return v.remapped("No") }},
		field[view]{"retired_pages.pending", "", "", fixed(na)},
	)
}

// remapped answers for boards that can remap memory rows: Ampere and later, with ECC.
func (v view) remapped(value string) string {
	if !v.Model.Remaps() {
		return na
	}
	return value
}

func powerFields() []field[view] {
	limit := func(_ *run, v view) string { return decimal(v.Model.PowerWatts) }
	draw := func(_ *run, v view) string { return decimal(v.PowerWatts) }
	return []field[view]{
		{"temperature.gpu", "", "", func(_ *run, v view) string { return fmt.Sprint(v.TempC) }},
		{"temperature.memory", "", "", func(_ *run, v view) string { return v.memTemp() }},
		{"power.management", "", "", fixed("Enabled")},
		{"power.draw", "", "W", draw},
		{"power.draw.average", "gpu.power.draw.average", "W", draw},
		{"power.draw.instant", "gpu.power.draw.instant", "W", draw},
		{"power.limit", "gpu.power.requested_limit", "W", limit},
		{"enforced.power.limit", "gpu.power.current_limit", "W", limit},
		{"power.default_limit", "gpu.power.default_limit", "W", limit},
		{"power.max_limit", "gpu.power.max_limit", "W", limit},
	}
}

func decimal(n int) string { return fmt.Sprintf("%d.00", n) }

func clockFields() []field[view] {
	sm := func(_ *run, v view) string { return fmt.Sprint(v.SMClockMHz()) }
	mem := func(_ *run, v view) string { return fmt.Sprint(v.MemClockMHz()) }
	maxSM := func(_ *run, v view) string { return fmt.Sprint(v.Model.SMClockMHz) }
	maxMem := func(_ *run, v view) string { return fmt.Sprint(v.Model.MemClockMHz) }
	return []field[view]{
		{"clocks.current.graphics", "clocks.gr", "MHz", sm},
		{"clocks.current.sm", "clocks.sm", "MHz", sm},
		{"clocks.current.memory", "clocks.mem", "MHz", mem},
		{"clocks.applications.graphics", "clocks.applications.gr", "MHz", maxSM},
		{"clocks.applications.memory", "clocks.applications.mem", "MHz", maxMem},
		{"clocks.max.graphics", "clocks.max.gr", "MHz", maxSM},
		{"clocks.max.sm", "", "MHz", maxSM},
		{"clocks.max.memory", "clocks.max.mem", "MHz", maxMem},
	}
}

func modeFields() []field[view] {
	return []field[view]{
		{"mig.mode.current", "", "", func(_ *run, v view) string { return v.migMode() }},
		{"mig.mode.pending", "", "", func(_ *run, v view) string { return v.migMode() }},
	}
}

func fixed(s string) func(*run, view) string {
	return func(*run, view) string { return s }
}
