package gpu

import "strings"

// teraFLOPS are what boards do in a second with dense 16-bit floats on tensor cores, from NVIDIA's data sheets, by the beginning of
// their names; the longest beginning counts.
var teraFLOPS = map[string]float64{
	"A10": 125, "A10G": 70, "A100": 312, "A30": 165, "B200": 2250, "GB200": 2500, "H100-NVL": 835, "H100-PCIE": 756, "H100-SXM5": 989,
	"H200": 989, "L4": 121, "L40S": 362, "RTX4090": 165, "T4": 65, "V100": 125,
}

// PeakFLOPS is what the board does in a second at best, which utilization of a model (MFU) is measured by; 0: not known.
func (m Model) PeakFLOPS() float64 {
	best := ""
	for name := range teraFLOPS {
		if strings.HasPrefix(m.Name, name) && len(name) > len(best) {
			best = name
		}
	}
	return teraFLOPS[best] * 1e12
}
