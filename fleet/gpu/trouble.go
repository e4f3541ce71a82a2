package gpu

import "slices"

// Trouble is what is wrong with a GPU. The zero value is a GPU that is well.
type Trouble struct {
	Xid     int  // the last that the driver reported; 0: none
	Lost    bool // it has fallen off the bus: nothing reaches it
	Dead    bool // programs on it fail, now and when they start again
	Thermal bool // hardware slows it down because it is too hot
	Brake   bool // hardware slows it down because the power supply asks for it

	CorrectedECC, UncorrectedECC int // errors in memory since the driver was loaded
	RemappedRows                 int // because of uncorrectable errors, and waiting for a reset
	LinkErrors                   int // on its NVLinks, which are down
}

// Slowed says whether hardware holds the clock down.
func (t Trouble) Slowed() bool { return t.Thermal || t.Brake }

// applicationXids are those that NVIDIA's device plugin puts down to programs: a GPU that reports one stays healthy.
var applicationXids = []int{13, 31, 43, 45, 68, 109}

// ApplicationXid says whether the error is a program's and not the GPU's.
func ApplicationXid(xid int) bool { return slices.Contains(applicationXids, xid) }

// XidText is what the driver writes into the kernel's log behind the number, for the errors that are met most.
func XidText(xid int) string {
	switch xid {
	case 13:
		return "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address"
	case 31:
		return "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f10_4a000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
	case 43:
		return "Ch 00000008"
	case 45:
		return "Ch 00000008, intr 00000000"
	case 48:
		return "DBE (double bit error) ECC Error"
	case 63:
		return "Row Remapper: New row marked for remapping, reset gpu to activate."
	case 64:
		return "Row Remapper: Error writing to the InfoROM"
	case 74:
		return "NVLink: fatal error detected on link 0 (0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
	case 79:
		return "GPU has fallen off the bus."
	case 94:
		return "Contained: SM (0x1). RST: No, D-RST: No"
	case 95:
		return "Uncontained: LTC TAG (0x1,0x0). RST: Yes, D-RST: No"
	case 109:
		return "Ch 00000008, CTX SWITCH TIMEOUT, Info 0x4c00c"
	case 119:
		return "Timeout after 6s of waiting for RPC response from GPU0 GSP!"
	}
	return "an error that simulated GPUs know by its number alone"
}

// XidName is how DCGM names the error.
func XidName(xid int) string {
	switch xid {
	case 0:
		return "No Error"
	case 13:
		return "Graphics Engine Exception"
	case 31:
		return "GPU memory page fault"
	case 43:
		return "GPU stopped processing"
	case 45:
		return "Preemptive cleanup, due to previous errors"
	case 48:
		return "Double Bit ECC Error"
	case 63:
		return "ECC page retirement or row remapping recording event"
	case 64:
		return "ECC page retirement or row remapper recording failure"
	case 74:
		return "NVLINK Error"
	case 79:
		return "GPU has fallen off the bus"
	case 94:
		return "Contained ECC error"
	case 95:
		return "Uncontained ECC error"
	}
	return "Unknown Error"
}
