package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var xidItem = Item{
	Code: "xid", Title: "no GPU reports an Xid error", Owner: check.Platform, Needs: []string{"nodes"}, Find: xidFound,
	Meaning: "An Xid is an error that the NVIDIA driver reports. Some are of a program; others say that the GPU, its memory or its link is broken.",
}

// xids are those that the driver's documentation explains and that occur in data centres. hardware says that the GPU, and
// not the program on it, has to be looked after.
var xids = map[int]struct {
	text     string
	hardware bool
}{
	13: {"graphics engine exception", false}, 31: {"memory page fault", false}, 43: {"GPU stopped processing", false},
	45: {"preemptive cleanup", false}, 68: {"video processor exception", false}, 109: {"context switch timeout", false},
	48: {"double bit ECC error", true}, 62: {"internal micro-controller halt", true}, 63: {"row remapping event", true}, 64: {"row remapping failure", true},
	74: {"NVLink error", true}, 79: {"GPU has fallen off the bus", true}, 92: {"high single bit ECC error rate", true}, 94: {"contained memory error", true},
	95: {"uncontained memory error", true}, 110: {"security fault", true}, 119: {"GSP timeout", true}, 120: {"GSP error", true}, 140: {"unrecovered ECC error", true},
	143: {"GPU initialization failure", true}, 149: {"NVLink error", true},
}

var aboutXid = regexp.MustCompile(`(?i)xid|fallen off the bus`)

func xidFound(c *Cluster) Result {
	faults := c.conditionFaults(aboutXid, "the node's health agent reports an Xid", "drain the node, read its kernel log, then reset or replace the GPU")
	for i := range c.devices {
		m := &c.devices[i]
		if v, ok := m.value("DCGM_FI_DEV_XID_ERRORS"); ok && v > 0 {
			faults = append(faults, m.xid(strconv.Itoa(int(v)), "DCGM_FI_DEV_XID_ERRORS", v))
		}
		counts := m.values("DCGM_EXP_XID_ERRORS_COUNT", "xid")
		for _, code := range slices.Sorted(maps.Keys(counts)) {
			faults = append(faults, m.xid(code, "DCGM_EXP_XID_ERRORS_COUNT", counts[code]))
		}
	}
	return Result{Findings: findings(faults), Blind: c.unmeasured("xid"), Looked: wording.Number(len(c.devices), "GPU") + " measured"}
}

// xid is the fault of one error code. The metric has the last one that occurred, however long ago.
func (m *measured) xid(code, metric string, value float64) fault {
	n, err := strconv.Atoi(code)
	known, ok := xids[n]
	f := fault{severity: Warn, text: "Xid " + clipped(code), object: m.object(), gpu: m.gpu, evidence: m.evidence(metric, value)}
	f.next = "look the code up in NVIDIA's list of Xid errors, and read the node's kernel log"
	switch {
	case err != nil || !ok:
	case known.hardware:
		f.severity, f.text = Fail, fmt.Sprintf("Xid %d (%s)", n, known.text)
		f.next = "drain the node, read its kernel log, then reset or replace the GPU"
	default:
		f.severity, f.text = Note, fmt.Sprintf("Xid %d (%s, as a rule an error of the program)", n, known.text)
		f.next = "read the log of the program that ran there"
	}
	return f
}
