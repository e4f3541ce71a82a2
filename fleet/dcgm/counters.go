package dcgm

import (
	"strconv"

	"github.com/berth-dev/berth/fleet/gpu"
)

// counter is one field of DCGM. value is false where the entity does not have it: the exporter leaves such lines out.
type counter struct {
	name, kind, help string
	own              func(e *entity) string // attributes of the counter's own, which stand between container and namespace; nil: none
	value            func(e *entity) (string, bool)
}

// counters are in the order of DCGM's field numbers, as the exporter writes them. Those that are off in its default list are
// the ratios of SMs and pipes, violations, ECC and the errors of NVLink.
var counters = []counter{
	{name: "DCGM_FI_DEV_SM_CLOCK", kind: "gauge", help: "SM clock frequency (in MHz).", value: whole(func(e *entity) int { return e.SMClockMHz() })},
	{name: "DCGM_FI_DEV_MEM_CLOCK", kind: "gauge", help: "Memory clock frequency (in MHz).", value: whole(func(e *entity) int { return e.MemClockMHz() })},
	{name: "DCGM_FI_DEV_MEMORY_TEMP", kind: "gauge", help: "Memory temperature (in C).", value: memoryTemp},
	{name: "DCGM_FI_DEV_GPU_TEMP", kind: "gauge", help: "GPU temperature (in C).", value: whole(func(e *entity) int { return e.TempC })},
	{name: "DCGM_FI_DEV_POWER_USAGE", kind: "gauge", help: "Power draw (in W).", value: func(e *entity) (string, bool) { return ratio(float64(e.PowerWatts)), true }},
	{name: "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", kind: "counter", help: "Total energy consumption since boot (in mJ).", value: whole(func(e *entity) int { return int(e.EnergyMillijoules) })},
	{name: "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", kind: "counter", help: "Total number of PCIe retries.", value: none},
	{name: "DCGM_FI_DEV_GPU_UTIL", kind: "gauge", help: "GPU utilization (in %).", value: utilization(func(e *entity) int { return e.UtilPercent })},
	{name: "DCGM_FI_DEV_MEM_COPY_UTIL", kind: "gauge", help: "Memory utilization (in %).", value: utilization(func(e *entity) int { return e.MemUtilPercent })},
	{name: "DCGM_FI_DEV_ENC_UTIL", kind: "gauge", help: "Encoder utilization (in %).", value: utilization(func(*entity) int { return 0 })},
	{name: "DCGM_FI_DEV_DEC_UTIL", kind: "gauge", help: "Decoder utilization (in %).", value: utilization(func(*entity) int { return 0 })},
	{name: "DCGM_FI_DEV_XID_ERRORS", kind: "gauge", help: "Value of the last XID error encountered.", own: xidLabels, value: whole(func(e *entity) int { return e.Trouble.Xid })},
	{name: "DCGM_FI_DEV_POWER_VIOLATION", kind: "counter", help: "Throttling duration due to power constraints (in ns).", value: whole(func(e *entity) int { return int(e.PowerViolation) })},
	{name: "DCGM_FI_DEV_THERMAL_VIOLATION", kind: "counter", help: "Throttling duration due to thermal constraints (in ns).", value: whole(func(e *entity) int { return int(e.ThermalViolation) })},
	{name: "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", kind: "counter", help: "Throttling duration due to sync-boost constraints (in ns).", value: none},
	{name: "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", kind: "counter", help: "Throttling duration due to board limit constraints (in ns).", value: none},
	{name: "DCGM_FI_DEV_LOW_UTIL_VIOLATION", kind: "counter", help: "Throttling duration due to low utilization (in ns).", value: none},
	{name: "DCGM_FI_DEV_RELIABILITY_VIOLATION", kind: "counter", help: "Throttling duration due to reliability constraints (in ns).", value: none},
	{name: "DCGM_FI_DEV_FB_FREE", kind: "gauge", help: "Framebuffer memory free (in MiB).", value: whole((*entity).free)},
	{name: "DCGM_FI_DEV_FB_USED", kind: "gauge", help: "Framebuffer memory used (in MiB).", value: whole((*entity).used)},
	{name: "DCGM_FI_DEV_FB_RESERVED", kind: "gauge", help: "Framebuffer memory reserved (in MiB).", value: whole((*entity).reserved)},
	{name: "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", kind: "counter", help: "Total number of single-bit volatile ECC errors.", value: ecc},
	{name: "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", kind: "counter", help: "Total number of double-bit volatile ECC errors.", value: uncorrected},
	{name: "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", kind: "counter", help: "Total number of single-bit persistent ECC errors.", value: ecc},
	{name: "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", kind: "counter", help: "Total number of double-bit persistent ECC errors.", value: uncorrected},
	{name: "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Number of remapped rows for uncorrectable errors", value: remapped},
	{name: "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", kind: "counter", help: "Number of remapped rows for correctable errors", value: remaps},
	{name: "DCGM_FI_DEV_ROW_REMAP_FAILURE", kind: "gauge", help: "Whether remapping of rows has failed", value: remapFailed},
	{name: "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", kind: "counter", help: "Total number of NVLink flow-control CRC errors.", value: links(0)},
	{name: "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", kind: "counter", help: "Total number of NVLink data CRC errors.", value: links(0)},
	{name: "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", kind: "counter", help: "Total number of NVLink retries.", value: links(0)},
	{name: "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", kind: "counter", help: "Total number of NVLink recovery errors.", value: links(0)},
	{name: "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", kind: "counter", help: "Total number of NVLink bandwidth counters for all lanes.", value: links(1e6)},
	{name: "DCGM_FI_DEV_VGPU_LICENSE_STATUS", kind: "gauge", help: "vGPU License status", value: none},
	{name: "DCGM_FI_PROF_GR_ENGINE_ACTIVE", kind: "gauge", help: "Ratio of time the graphics engine is active.", value: pipe(func(e *entity) float64 { return e.pipes.Graphics })},
	{name: "DCGM_FI_PROF_SM_ACTIVE", kind: "gauge", help: "The ratio of cycles an SM has at least 1 warp assigned.", value: pipe(func(e *entity) float64 { return e.pipes.SM })},
	{name: "DCGM_FI_PROF_SM_OCCUPANCY", kind: "gauge", help: "The ratio of number of warps resident on an SM.", value: pipe(func(e *entity) float64 { return e.pipes.Occupancy })},
	{name: "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", kind: "gauge", help: "Ratio of cycles the tensor (HMMA) pipe is active.", value: pipe(func(e *entity) float64 { return e.pipes.Tensor })},
	{name: "DCGM_FI_PROF_DRAM_ACTIVE", kind: "gauge", help: "Ratio of cycles the device memory interface is active sending or receiving data.", value: pipe(func(e *entity) float64 { return e.pipes.DRAM })},
	{name: "DCGM_FI_PROF_PIPE_FP64_ACTIVE", kind: "gauge", help: "Ratio of cycles the fp64 pipes are active.", value: pipe(func(e *entity) float64 { return e.pipes.FP64 })},
	{name: "DCGM_FI_PROF_PIPE_FP32_ACTIVE", kind: "gauge", help: "Ratio of cycles the fp32 pipes are active.", value: pipe(func(e *entity) float64 { return e.pipes.FP32 })},
	{name: "DCGM_FI_PROF_PIPE_FP16_ACTIVE", kind: "gauge", help: "Ratio of cycles the fp16 pipes are active.", value: pipe(func(e *entity) float64 { return e.pipes.FP16 })},
	{name: "DCGM_FI_PROF_PCIE_TX_BYTES", kind: "gauge", help: "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", value: bus(func(e *entity) float64 { return e.pipes.PCIeSent })},
	{name: "DCGM_FI_PROF_PCIE_RX_BYTES", kind: "gauge", help: "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per second.", value: bus(func(e *entity) float64 { return e.pipes.PCIeReceived })},
}

func whole(f func(e *entity) int) func(*entity) (string, bool) {
	return func(e *entity) (string, bool) { return strconv.Itoa(f(e)), true }
}

// ratio writes a number as the exporter writes those that are not whole.
func ratio(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

func none(*entity) (string, bool) { return "0", true }

func memoryTemp(e *entity) (string, bool) {
	c, ok := e.MemTempC()
	return strconv.Itoa(c), ok
}

// utilization is what NVML measures of a whole GPU, and not of one in MIG mode.
func utilization(f func(e *entity) int) func(*entity) (string, bool) {
	return func(e *entity) (string, bool) { return strconv.Itoa(f(e)), !e.MIGEnabled }
}

func ecc(e *entity) (string, bool) { return "0", !e.Model.Consumer }

func uncorrected(e *entity) (string, bool) {
	return strconv.Itoa(e.Trouble.UncorrectedECC), !e.Model.Consumer
}

func remapped(e *entity) (string, bool) {
	return strconv.Itoa(e.Trouble.RemappedRows), e.Model.Remaps()
}

// xidLabels are what the exporter says of the error beside its number.
func xidLabels(e *entity) string {
	return `,err_code="` + strconv.Itoa(e.Trouble.Xid) + `",err_msg="` + gpu.XidName(e.Trouble.Xid) + `"`
}

// remapFailed is 1 behind Xid 64, with which the driver reports it.
func remapFailed(e *entity) (string, bool) {
	if e.Trouble.Xid == 64 {
		return "1", e.Model.Remaps()
	}
	return remaps(e)
}

func remaps(e *entity) (string, bool) { return "0", e.Model.Remaps() }

// links counts over the NVLinks of a GPU: what went over them in units of so many bytes, or no errors.
func links(unit uint64) func(*entity) (string, bool) {
	return func(e *entity) (string, bool) {
		if unit == 0 {
			return strconv.Itoa(e.Trouble.LinkErrors), e.Linked() && e.part == nil
		}
		return strconv.FormatUint(e.NVLinkBytes/unit, 10), e.Linked() && e.part == nil
	}
}

// pipe is of the profiling module, which GeForce boards do not have.
func pipe(f func(e *entity) float64) func(*entity) (string, bool) {
	return func(e *entity) (string, bool) { return ratio(f(e)), !e.Model.Consumer }
}

// bus is of the profiling module and of whole GPUs.
func bus(f func(e *entity) float64) func(*entity) (string, bool) {
	return func(e *entity) (string, bool) {
		return strconv.Itoa(int(f(e))), !e.Model.Consumer && e.part == nil
	}
}

func (e *entity) used() int {
	if e.part != nil {
		return e.part.UsedMiB
	}
	return e.MemUsedMiB
}

func (e *entity) free() int {
	if e.part != nil {
		return max(0, e.part.Profile.MemoryMiB-e.part.UsedMiB)
	}
	return e.FreeMiB()
}

func (e *entity) reserved() int {
	if e.part != nil {
		return 0 // what the driver keeps is outside of the instances
	}
	return e.ReservedMiB()
}
