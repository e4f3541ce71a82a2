package smi

import (
	"fmt"
	"slices"
	"strconv"
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

func (v view) memTemp() string {
	if c, ok := v.MemTempC(); ok {
		return fmt.Sprint(c)
	}
	return na
}

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

// uncorrected counts the errors in memory that could not be corrected, on boards that count them.
func (v view) uncorrected() string {
	if v.eccErrors() == na {
		return na
	}
	return strconv.Itoa(v.Trouble.UncorrectedECC)
}

func yes(on bool) string {
	if on {
		return "Yes"
	}
	return "No"
}

// eccErrors counts errors that could be corrected, on boards that count them: none so far.
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
