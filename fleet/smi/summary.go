package smi

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
)

// summary is the table that nvidia-smi prints without arguments. Widths are those of R580;
// columns are 41, 24 and 22 characters between the bars, 89 over all.
func (r *run) summary(gpus []view) string {
	const rule = "+-----------------------------------------+------------------------+----------------------+\n"
	var b strings.Builder
	fmt.Fprintf(&b, "%s       \n", r.host.Now.Format(time.ANSIC))
	b.WriteString(wideRule)
	fmt.Fprintf(&b, "| NVIDIA-SMI %-23sDriver Version: %-15sCUDA Version: %-9s|\n", r.host.Driver.Version, r.host.Driver.Version, r.host.Driver.CUDA)
	b.WriteString(rule)
	b.WriteString("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n" +
		"| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n" +
		"|                                         |                        |               MIG M. |\n" +
		"|=========================================+========================+======================|\n")
	for _, g := range gpus {
		b.WriteString(g.summaryRows())
		b.WriteString(rule)
	}
	b.WriteString("\n" + migTable(gpus) + processTable(gpus))
	return b.String()
}

const wideRule = "+-----------------------------------------------------------------------------------------+\n"

func (v view) summaryRows() string {
	fan := v.fan()
	if fan != na {
		fan += "%"
	}
	ecc := v.uncorrected()
	if v.MIGEnabled {
		ecc = "On" // errors are counted by MIG device
	}
	return fmt.Sprintf("|%4d  %-31s%-3s |%19s %3s |%21s |\n", v.shown, shorten(v.Model.Product, 27), "On", v.BusID, "Off", ecc) +
		fmt.Sprintf("| %3s%5dC    %-2s%16s / %5s |%11s / %9s |%8s%13s |\n", fan, v.TempC, v.State(), watts(v.PowerWatts), watts(v.Model.PowerWatts),
			mib(v.MemUsedMiB), mib(v.MemoryMiB), v.utilization("%"), "Default") +
		fmt.Sprintf("|%41s|%24s|%21s |\n", "", "", v.migMode())
}

// processTable is the lower half of the summary.
func processTable(gpus []view) string {
	var b strings.Builder
	b.WriteString(wideRule)
	b.WriteString("| Processes:                                                                              |\n" +
		"|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n" +
		"|        ID   ID                                                               Usage      |\n" +
		"|=========================================================================================|\n")
	rows := 0
	for _, g := range gpus {
		for _, p := range g.Processes {
			rows++
			instance := "   N/A  N/A"
			if p.MIG != nil {
				instance = fmt.Sprintf("%5d%5d ", g.GPUInstance(*p.MIG), 0)
			}
			fmt.Fprintf(&b, "|%5d%s%16d      C   %-36s%10s |\n", g.shown, instance, p.PID, shortenPath(p.Name, 34), mib(p.UsedMiB))
		}
	}
	if rows == 0 {
		b.WriteString("|  No running processes found                                                             |\n")
	}
	b.WriteString(wideRule)
	return b.String()
}

func mib(n int) string   { return fmt.Sprintf("%dMiB", n) }
func watts(n int) string { return fmt.Sprintf("%dW", n) }

// shorten cuts a product name that does not fit its column.
func shorten(s string, width int) string {
	if len(s) <= width {
		return s
	}
	return s[:width-3] + "..."
}

// shortenPath keeps the end of a program's path, which tells more than its beginning.
func shortenPath(s string, width int) string {
	if len(s) <= width {
		return s
	}
	return "..." + s[len(s)-width+3:]
}

// version is the answer to --version.
func version(d gpu.Driver) string {
	nvml := strings.SplitN(d.Version, ".", 3)
	return fmt.Sprintf("NVIDIA-SMI version  : %s\nNVML version        : %s\nDRIVER version      : %s\nCUDA Version        : %s\n",
		d.Version, strings.Join(nvml[:min(2, len(nvml))], "."), d.Version, d.CUDA)
}
