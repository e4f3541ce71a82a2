package smi

import (
	"fmt"
	"strconv"
	"strings"
)

func logProduct(r *run, b *logbook, v view) {
	b.pair(1, "Product Name", v.Model.Product)
	b.pair(1, "Product Brand", brand(v))
	b.pair(1, "Product Architecture", v.Model.Architecture())
	b.pair(1, "Display Active", "Disabled")
	b.pair(1, "Persistence Mode", "Enabled")
	b.pairs(1, "MIG Mode", "Current", v.migMode(), "Pending", v.migMode())
	b.pair(1, "Serial Number", v.serial())
	b.pair(1, "GPU UUID", v.UUID)
	b.pair(1, "Minor Number", fmt.Sprint(v.Index))
	b.pair(1, "GSP Firmware Version", r.host.Driver.Version)
}

func brand(v view) string {
	switch {
	case v.Model.Consumer:
		return "GeForce"
	case strings.HasPrefix(v.Model.Product, "Tesla"):
		return "Tesla"
	}
	return "NVIDIA"
}

func logPCI(_ *run, b *logbook, v view) {
	at := v.pci()
	b.pairs(1, "PCI",
		"Bus", "0x"+at.bus,
		"Device", "0x"+at.device,
		"Domain", "0x"+at.domain,
		"Bus Id", v.BusID)
	b.title(2, "GPU Link Info")
	b.pairs(3, "PCIe Generation", "Max", pcieGeneration(v.Model), "Current", pcieGeneration(v.Model))
	b.pairs(3, "Link Width", "Max", "16x", "Current", "16x")
	fan := v.fan()
	if fan != na {
		fan += " %"
	}
	b.pair(1, "Fan Speed", fan)
}

func logPerformance(_ *run, b *logbook, v view) {
	b.pair(1, "Performance State", v.State())
	b.pairs(1, "Clocks Event Reasons",
		"Idle", active(!v.Busy()),
		"Applications Clocks Setting", active(false),
		"SW Power Cap", active(v.PowerCapped()),
		"HW Slowdown", active(v.Trouble.Slowed()))
	b.pair(3, "HW Thermal Slowdown", active(v.Trouble.Thermal))
	b.pair(3, "HW Power Brake Slowdown", active(v.Trouble.Brake))
	b.pair(2, "Sync Boost", active(false))
	b.pair(2, "SW Thermal Slowdown", active(false))
	b.pair(2, "Display Clock Setting", active(false))
}

func logMemory(_ *run, b *logbook, v view) {
	b.pairs(1, "FB Memory Usage",
		"Total", spaced(v.MemoryMiB, "MiB"),
		"Reserved", spaced(v.ReservedMiB(), "MiB"),
		"Used", spaced(v.MemUsedMiB, "MiB"),
		"Free", spaced(v.FreeMiB(), "MiB"))
	b.pairs(1, "BAR1 Memory Usage",
		"Total", spaced(v.bar1MiB(), "MiB"),
		"Used", spaced(v.bar1UsedMiB(), "MiB"),
		"Free", spaced(v.bar1MiB()-v.bar1UsedMiB(), "MiB"))
	b.pairs(1, "Conf Compute Protected Memory Usage", "Total", "0 MiB", "Used", "0 MiB", "Free", "0 MiB")
}

func logUtilization(_ *run, b *logbook, v view) {
	b.pairs(1, "Utilization",
		"GPU", spaced(v.UtilPercent, "%"),
		"Memory", spaced(v.MemUtilPercent, "%"),
		"Encoder", "0 %",
		"Decoder", "0 %",
		"JPEG", "0 %",
		"OFA", "0 %")
}

func logECC(_ *run, b *logbook, v view) {
	b.pairs(1, "ECC Mode", "Current", v.eccMode(), "Pending", v.eccMode())
	b.title(1, "ECC Errors")
	for _, span := range []string{"Volatile", "Aggregate"} {
		b.pairs(2, span,
			"SRAM Correctable", v.eccErrors(),
			"SRAM Uncorrectable Parity", v.eccErrors(),
			"SRAM Uncorrectable SEC-DED", v.eccErrors(),
			"DRAM Correctable", v.eccErrors(),
			"DRAM Uncorrectable", v.uncorrected())
	}
}

func logRemapped(_ *run, b *logbook, v view) {
	if v.remapped("0") == na {
		b.pair(1, "Remapped Rows", na)
		return
	}
	b.pairs(1, "Remapped Rows",
		"Correctable Error", "0",
		"Uncorrectable Error", strconv.Itoa(v.Trouble.RemappedRows),
		"Pending", yes(v.Trouble.RemappedRows > 0),
		"Remapping Failure Occurred", "No")
}

func logTemperature(_ *run, b *logbook, v view) {
	memory := v.memTemp()
	if memory != na {
		memory += " C"
	}
	b.pairs(1, "Temperature", "GPU Current Temp", spaced(v.TempC, "C"), "Memory Current Temp", memory)
}

func logPower(_ *run, b *logbook, v view) {
	limit, draw := decimal(v.Model.PowerWatts)+" W", decimal(v.PowerWatts)+" W"
	b.pairs(1, "GPU Power Readings",
		"Average Power Draw", draw,
		"Instantaneous Power Draw", draw,
		"Current Power Limit", limit,
		"Requested Power Limit", limit,
		"Default Power Limit", limit,
		"Max Power Limit", limit)
}

func logClocks(_ *run, b *logbook, v view) {
	b.pairs(1, "Clocks",
		"Graphics", spaced(v.SMClockMHz(), "MHz"),
		"SM", spaced(v.SMClockMHz(), "MHz"),
		"Memory", spaced(v.MemClockMHz(), "MHz"))
	b.pairs(1, "Applications Clocks",
		"Graphics", spaced(v.Model.SMClockMHz, "MHz"),
		"Memory", spaced(v.Model.MemClockMHz, "MHz"))
	b.pairs(1, "Max Clocks",
		"Graphics", spaced(v.Model.SMClockMHz, "MHz"),
		"SM", spaced(v.Model.SMClockMHz, "MHz"),
		"Memory", spaced(v.Model.MemClockMHz, "MHz"))
}

func logProcesses(_ *run, b *logbook, v view) {
	if len(v.Processes) == 0 {
		b.pair(1, "Processes", "None")
		return
	}
	b.title(1, "Processes")
	for _, p := range v.Processes {
		b.aligned(42, 2, "GPU instance ID", na)
		b.aligned(42, 2, "Compute instance ID", na)
		b.aligned(42, 2, "Process ID", fmt.Sprint(p.PID))
		b.aligned(42, 3, "Type", "C")
		b.aligned(42, 3, "Name", p.Name)
		b.aligned(42, 3, "Used GPU Memory", spaced(p.UsedMiB, "MiB"))
	}
}

func spaced(n int, unit string) string { return fmt.Sprintf("%d %s", n, unit) }
