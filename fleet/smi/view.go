package smi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// na is what the real program prints for what a board cannot tell.
const na = "N/A"

// view is a GPU as one run sees it.
type view struct {
	gpu.Reading
	shown int // the index it is shown under
	count int // GPUs that are visible, chosen by -i or not
}

// views lists the visible GPUs that ids name, in order of index; nil ids: all of them. As in
// the real program, names that fit nothing are dropped while at least one fits.
func (r *run) views(ids []string) ([]view, *failure) {
	var out []view
	for i, g := range r.host.GPUs {
		v := view{Reading: g, shown: i, count: len(r.host.GPUs)}
		if r.host.All {
			v.shown = g.Index
		}
		if ids == nil || slices.ContainsFunc(ids, v.named) {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, noDevices()
	}
	return out, nil
}

// named says whether id is the GPU's index, UUID, serial or bus id.
func (v view) named(id string) bool {
	if id == "" {
		return false
	}
	return id == fmt.Sprint(v.shown) || strings.EqualFold(id, v.UUID) || id == v.Serial ||
		strings.EqualFold(id, v.BusID) || strings.EqualFold(id, strings.TrimPrefix(v.BusID, "0000"))
}

// busy says whether a program keeps the GPU out of its idle state.
func (v view) busy() bool { return v.UtilPercent > 0 || len(v.Processes) > 0 }

func (v view) pstate() string {
	if v.busy() || v.Model.IdleState == "" {
		return "P0"
	}
	return v.Model.IdleState
}

// smClock is the SM clock in MHz. Between idle and full there is nothing: boost keeps a working
// GPU at its highest clock while power and temperature allow it.
func (v view) smClock() int {
	switch {
	case v.busy():
		return v.Model.SMClockMHz
	case v.Model.Family == "hopper":
		return 345
	case v.Model.Family == "blackwell":
		return 120
	case v.Model.Family == "volta":
		return 135
	case v.Model.Family == "turing":
		return 300
	}
	return 210
}

func (v view) memClock() int {
	if v.pstate() == "P8" {
		return 405
	}
	return v.Model.MemClockMHz
}

// stacked says whether the board has HBM, which reports a temperature of its own. The boards
// that idle in P0 are those.
func (v view) stacked() bool { return v.Model.IdleState == "P0" }

func (v view) memTemp() string {
	if !v.stacked() {
		return na
	}
	return fmt.Sprint(v.TempC + 1)
}

// reservedMiB is what the driver keeps for itself, rounded up: the share seen on an H200.
func (v view) reservedMiB() int { return v.MemoryMiB*428/100000 + 1 }

func (v view) freeMiB() int { return max(0, v.MemoryMiB-v.MemUsedMiB-v.reservedMiB()+1) }

// bar1MiB is the aperture through which the host reaches the board's memory: all of it on
// boards with a large BAR, 256 MiB on the T4.
func (v view) bar1MiB() int {
	if v.Model.Family == "turing" {
		return 256
	}
	size := 256
	for size < v.MemoryMiB {
		size *= 2
	}
	return size
}

func (v view) bar1UsedMiB() int { return min(v.MemUsedMiB+1, v.bar1MiB()) }

func (v view) fan() string {
	if !v.Model.Consumer {
		return na
	}
	return fmt.Sprint(30 + v.UtilPercent*40/100)
}

// eccErrors counts errors on boards that count them: none so far.
func (v view) eccErrors() string {
	if v.Model.Consumer {
		return na
	}
	return "0"
}

func (v view) eccMode() string {
	if v.Model.Consumer {
		return na
	}
	return "Enabled"
}

func (v view) migMode() string {
	switch {
	case !v.Model.MIG:
		return na
	case v.MIGEnabled:
		return "Enabled"
	}
	return "Disabled"
}

// utilization is not told of a GPU in MIG mode.
func (v view) utilization(unit string) string {
	if v.MIGEnabled {
		return na
	}
	return fmt.Sprint(v.UtilPercent) + unit
}

// linked says whether the GPU's NVLinks are up.
func (v view) linked() bool { return v.NVLink >= 0 && v.Model.NVLinks > 0 }
