package dcgm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCollectors(t *testing.T) {
	list, err := ParseCollectors("# comment\n\nDCGM_FI_DEV_GPU_UTIL ,  gauge, Mine, with a comma.\nDCGM_FI_DRIVER_VERSION, label, Driver\nDCGM_FI_DEV_UNHEARD_OF, counter, x\n")
	if err != nil {
		t.Fatal(err)
	}
	page := string(Append(nil, Node{Hostname: "n", GPUs: reading(t, "h100", 1), Collectors: list}))
	if got := strings.Count(page, "\n"); got != 3 || !strings.HasPrefix(page, "# HELP DCGM_FI_DEV_GPU_UTIL Mine, with a comma.\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n") {
		t.Error(page)
	}
	for _, bad := range []string{"x", "DCGM_FI_DEV_GPU_UTIL, gauge", "GPU_UTIL, gauge, x", "DCGM_FI_DEV_GPU_UTIL, number, x", strings.Repeat("\n", maxLines+1), strings.Repeat("#", MaxCollectors+1)} {
		if got, err := ParseCollectors(bad); err == nil {
			t.Errorf("%.20q is read as %v", bad, got)
		}
	}
}

// The default list is that of etc/default-counters.csv of dcgm-exporter.
func TestDefaultCollectors(t *testing.T) {
	var off []string
	list := DefaultCollectors()
	for _, c := range counters {
		if _, on := list[c.name]; !on {
			off = append(off, strings.TrimPrefix(c.name, "DCGM_FI_"))
		}
	}
	want := []string{
		"DEV_BOARD_LIMIT_VIOLATION", "DEV_ECC_DBE_AGG_TOTAL", "DEV_ECC_DBE_VOL_TOTAL", "DEV_ECC_SBE_AGG_TOTAL", "DEV_ECC_SBE_VOL_TOTAL",
		"DEV_LOW_UTIL_VIOLATION", "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
		"DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_POWER_VIOLATION", "DEV_RELIABILITY_VIOLATION",
		"DEV_SYNC_BOOST_VIOLATION", "DEV_THERMAL_VIOLATION", "PROF_PIPE_FP16_ACTIVE", "PROF_PIPE_FP32_ACTIVE", "PROF_PIPE_FP64_ACTIVE",
		"PROF_SM_ACTIVE", "PROF_SM_OCCUPANCY",
	}
	slices.Sort(off)
	if diff := cmp.Diff(want, off); diff != "" {
		t.Error(diff)
	}
}

func FuzzCollectors(f *testing.F) {
	f.Add("DCGM_FI_DEV_GPU_UTIL, gauge, x\\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseCollectors(text)
		if err != nil {
			return
		}
		for line := range strings.Lines(string(Append(nil, Node{Hostname: "n", GPUs: reading(t, "h100", 1), Collectors: list}))) {
			if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "# ") {
				t.Fatalf("a line of its own: %q", line)
			}
		}
	})
}
