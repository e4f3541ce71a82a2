package dcgm

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/fleet/gpu"
)

// TestTroubleIsCounted looks for the metrics that alerts read: a GPU with errors, and one that is lost, of which the driver knows
// its last error alone.
func TestTroubleIsCounted(t *testing.T) {
	h100, _ := gpu.Lookup("h100")
	n := Node{Hostname: "n", Driver: "580.95.05"}
	for i, d := range gpu.Devices("n", []gpu.Group{{Model: h100, Count: 2, MemoryMiB: h100.MemoryMiB, NVLink: true}}) {
		r := gpu.Reading{Device: d, Trouble: gpu.Trouble{Xid: 48, UncorrectedECC: 2, RemappedRows: 1, LinkErrors: 7}}
		if i == 1 {
			r.Trouble = gpu.Trouble{Xid: 79, Lost: true}
		}
		n.GPUs = append(n.GPUs, r)
	}
	page := string(Append(nil, n))
	for name, want := range map[string][2]string{
		"DCGM_FI_DEV_XID_ERRORS":                        {"48", "79"},
		"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":                 {"2", ""},
		"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL":                 {"0", ""},
		"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS":       {"1", ""},
		"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": {"7", ""},
		"DCGM_FI_DEV_GPU_TEMP":                          {"0", ""},
	} {
		var got [2]string
		for line := range strings.SplitSeq(page, "\n") {
			for i, gpu := range []string{`{gpu="0"`, `{gpu="1"`} {
				if strings.HasPrefix(line, name+gpu) {
					got[i] = line[strings.LastIndexByte(line, ' ')+1:]
				}
			}
		}
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if !strings.Contains(page, `err_code="79",err_msg="GPU has fallen off the bus"`) {
		t.Error("the error has no name")
	}
}
