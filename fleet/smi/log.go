package smi

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// section is a part of the log that -d can choose.
type section struct {
	flag  string // of -d; empty: only in the full log
	write func(*run, *logbook, view)
}

// sections are the parts of -q in the order in which they are printed. The real log has more
// lines; these are the ones with something to say about a simulated GPU.
var sections = []section{
	{"", logProduct},
	{"", logPCI},
	{"PERFORMANCE", logPerformance},
	{"MEMORY", logMemory},
	{"COMPUTE", func(_ *run, b *logbook, _ view) { b.pair(1, "Compute Mode", "Default") }},
	{"UTILIZATION", logUtilization},
	{"ECC", logECC},
	{"ROW_REMAPPER", logRemapped},
	{"TEMPERATURE", logTemperature},
	{"POWER", logPower},
	{"CLOCK", logClocks},
	{"PIDS", logProcesses},
}

// silentDisplays are the values of -d that select nothing here.
var silentDisplays = []string{
	"SUPPORTED_CLOCKS", "PAGE_RETIREMENT", "ACCOUNTING", "ENCODER_STATS", "SUPPORTED_GPU_TARGET_TEMP",
	"VOLTAGE", "FBC_STATS", "GSP_FIRMWARE_VERSION", "POWER_SMOOTHING", "POWER_PROFILES",
}

func parseDisplay(s string) ([]string, *failure) {
	out := splitList(strings.ToUpper(s))
	for _, d := range out {
		known := d != "" && slices.ContainsFunc(sections, func(s section) bool { return s.flag == d })
		if !known && !slices.Contains(silentDisplays, d) {
			return nil, &failure{"Failed to parse --display/-d flags\n", exitBadArgument}
		}
	}
	return out, nil
}

// log is the answer to -q, whole or filtered by display.
func (r *run) log(gpus []view, display []string) string {
	b := &logbook{}
	b.WriteString("\n==============NVSMI LOG==============\n\n")
	b.pair(0, "Timestamp", r.host.Now.Format(time.ANSIC))
	b.pair(0, "Driver Version", r.host.Driver.Version)
	b.pair(0, "CUDA Version", r.host.Driver.CUDA)
	b.WriteString("\n")
	b.pair(0, "Attached GPUs", fmt.Sprint(len(r.host.GPUs)))
	for _, g := range gpus {
		b.title(0, "GPU "+g.BusID)
		for _, s := range sections {
			if display == nil || slices.Contains(display, s.flag) {
				s.write(r, b, g)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// logbook writes titles and aligned pairs, four characters deeper per level.
type logbook struct{ strings.Builder }

func (b *logbook) title(depth int, name string) {
	fmt.Fprintf(b, "%s%s\n", strings.Repeat("    ", depth), name)
}

func (b *logbook) pair(depth int, key, value string) { b.aligned(55, depth, key, value) }

func (b *logbook) aligned(width, depth int, key, value string) {
	fmt.Fprintf(b, "%-*s: %s\n", width, strings.Repeat("    ", depth)+key, value)
}

// pairs writes a title and under it key, value, key, value...
func (b *logbook) pairs(depth int, title string, kv ...string) {
	b.title(depth, title)
	for i := 0; i+1 < len(kv); i += 2 {
		b.pair(depth+1, kv[i], kv[i+1])
	}
}
