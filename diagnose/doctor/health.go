package doctor

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// families are the metrics that say something of an item, the usual one first.
var families = map[string][]string{
	"xid":      {"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"},
	"ecc":      {"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_PENDING", "DCGM_FI_DEV_RETIRED_PENDING", "DCGM_FI_DEV_RETIRED_DBE", "gpu_ecc_uncorrect_total"},
	"throttle": {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_FI_DEV_THERMAL_VIOLATION", "DCGM_FI_DEV_POWER_VIOLATION"},
	"fabric":   {"DCGM_FI_DEV_FABRIC_MANAGER_STATUS", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"},
}

// ailing are the node's conditions that say that something about its GPUs is not well, and that match: some are good
// when True and others bad, and their names tell.
func ailing(n *corev1.Node, about *regexp.Regexp) []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, s := range n.Status.Conditions {
		good := strings.HasSuffix(string(s.Type), "Ready") || strings.HasSuffix(string(s.Type), "Healthy")
		bad := good && s.Status == corev1.ConditionFalse || !good && s.Status == corev1.ConditionTrue
		if bad && about.MatchString(string(s.Type)+" "+s.Reason+" "+s.Message) {
			out = append(out, s)
		}
	}
	return out
}

// conditionFaults are faults that nodes' conditions tell of, from agents that watch GPUs.
func (c *Cluster) conditionFaults(about *regexp.Regexp, what, next string) []fault {
	var out []fault
	for _, g := range c.gpus {
		for _, s := range ailing(g.Node, about) {
			out = append(out, fault{
				severity: Fail, text: what + " (condition " + string(s.Type) + ", reason " + s.Reason + ")", next: next, object: nodeRef(g.Name),
				evidence: g.evidence("status.conditions[type="+string(s.Type)+"]", strings.TrimSpace(string(s.Status)+" "+s.Reason+" "+s.Message)),
			})
		}
	}
	return out
}
