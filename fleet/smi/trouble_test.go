package smi

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
)

// TestTroubleShows looks for what is wrong with a GPU where people look.
func TestTroubleShows(t *testing.T) {
	h100, _ := gpu.Lookup("h100")
	r := gpu.Reading{Device: gpu.Devices("n", []gpu.Group{{Model: h100, Count: 1, MemoryMiB: h100.MemoryMiB}})[0]}
	r.Trouble = gpu.Trouble{Thermal: true, UncorrectedECC: 2, RemappedRows: 1}
	h := Host{GPUs: []gpu.Reading{r}, Driver: gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, Now: time.Unix(0, 0), All: true}
	for query, want := range map[string]string{
		"clocks_event_reasons.active":                  "0x0000000000000049",
		"clocks_event_reasons.hw_thermal_slowdown":     "Active",
		"clocks_event_reasons.hw_power_brake_slowdown": "Not Active",
		"ecc.errors.uncorrected.volatile.total":        "2",
		"ecc.errors.corrected.volatile.total":          "0",
		"remapped_rows.uncorrectable":                  "1",
		"remapped_rows.pending":                        "Yes",
	} {
		var out, errs bytes.Buffer
		code := Main([]string{"--query-gpu=" + query, "--format=csv,noheader"}, h, &out, &errs)
		if got := strings.TrimSpace(out.String()); code != 0 || got != want {
			t.Errorf("%s: %d %q %s, want %q", query, code, got, errs.String(), want)
		}
	}
}
