package doctor

import (
	"regexp"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var eccItem = Item{
	Code: "ecc", Title: "GPU memory has no uncorrectable errors", Owner: check.Platform, Needs: []string{"nodes"}, Find: eccFound,
	Meaning: "An uncorrectable error kills the program that hits it. A GPU that has run out of spare rows keeps having them.",
}

var aboutECC = regexp.MustCompile(`(?i)\becc\b|double ?bit|dbe|row ?remap|page ?retire|uncorrectable`)

// eccRules are metrics that are 0 on a GPU that is well.
var eccRules = []struct {
	metric   string
	severity Severity
	text     string
	next     string
}{
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", Fail, "memory rows that could not be remapped", "drain the node and have the GPU replaced"},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Fail, "double bit ECC errors since the driver was loaded", "drain the node and reset the GPU; have it replaced if the errors come back"},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", Warn, "memory rows that wait to be remapped", "drain the node and reset the GPU: rows are remapped at a reset"},
	{"DCGM_FI_DEV_RETIRED_PENDING", Warn, "memory pages that wait to be retired", "drain the node and reset the GPU"},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", Warn, "memory rows remapped after uncorrectable errors", "watch the count: a GPU on which it grows should be replaced"},
	{"DCGM_FI_DEV_RETIRED_DBE", Warn, "memory pages retired after double bit errors", "watch the count: a GPU on which it grows should be replaced"},
	{"gpu_ecc_uncorrect_total", Warn, "uncorrectable ECC errors", "drain the node and reset the GPU; have it replaced if the errors come back"},
}

func eccFound(c *Cluster) Result {
	faults := c.conditionFaults(aboutECC, "the node's health agent reports memory errors", "drain the node and reset the GPU; have it replaced if the errors come back")
	for i := range c.devices {
		m := &c.devices[i]
		for _, r := range eccRules {
			if v, ok := m.value(r.metric); ok && v > 0 {
				faults = append(faults, fault{severity: r.severity, text: r.text, next: r.next, object: m.object(), gpu: m.gpu, evidence: m.evidence(r.metric, v)})
			}
		}
	}
	return Result{Findings: findings(faults), Blind: c.unmeasured("ecc"), Looked: wording.Number(len(c.devices), "GPU") + " measured"}
}
