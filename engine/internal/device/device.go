package device

// Device is one GPU of a node. Its position in a slice of devices is its index; callers keep that order.
type Device struct {
	Model  string
	Clique string // GPUs of one clique reach each other over NVLink; "": none
	NUMA   int    // -1: not known, and so with no other
	Free   bool   // healthy, and no pod holds it
	Mark   int32  // devices of other marks are not alike to Each; 0 where names count for nobody
}

// Wish is how much a pod cares that its devices agree in something.
type Wish uint8

const (
	Any     Wish = iota // not at all
	Prefer              // where it can be had
	Require             // or it does not fit
)

// Want is what one pod asks for.
type Want struct {
	Count  int
	Model  string // "": any, also unlike ones
	Clique Wish   // all in one clique; a device without a clique is alone in its own
	NUMA   Wish   // all on one NUMA node
}

// Unbounded is how many pods fit that ask for no device.
const Unbounded = 1<<31 - 1

// Fits counts the pods of this want that the free devices hold at once. Each pod lies within one island of what it
// requires, so an island of 7 devices holds three pods of 2, whatever is free elsewhere; without a requirement all
// devices are one island. Wishes that are only preferred do not count. It costs a comparison of each device with the
// islands found so far.
func Fits(devs []Device, w Want) int {
	if w.Count <= 0 {
		return Unbounded
	}
	required := w.where(Require)
	if required == 0 {
		return countFree(devs, &w) / w.Count
	}
	var room [16]island // more islands than that spill to the heap
	pods := 0
	for _, one := range islands(devs, &w, required, room[:0]) {
		pods += int(one.free) / w.Count
	}
	return pods
}

func countFree(devs []Device, w *Want) int {
	n := 0
	for i := range devs {
		if w.takes(&devs[i]) {
			n++
		}
	}
	return n
}

// island is a set of devices that are alike in all of a set of attributes, such as the free GPUs of one clique on one
// NUMA node.
type island struct {
	first int32 // the index of one of them
	free  int32 // how many the pod could have, one at least
}

// islands appends to out the islands that the pod could have devices of. Being together is the same for every member of an island, so that
// a comparison with its first is enough; a device that is together with none, because its clique or NUMA node is not known,
// is an island of its own.
func islands(devs []Device, w *Want, by by, out []island) []island {
next:
	for i := range devs {
		if !w.takes(&devs[i]) {
			continue
		}
		for k := len(out) - 1; k >= 0; k-- { // alike devices tend to be neighbours
			if together(devs, int(out[k].first), i, by) {
				out[k].free++
				continue next
			}
		}
		out = append(out, island{int32(i), 1})
	}
	return out
}

// takes tells whether the pod could have the device at all.
func (w *Want) takes(d *Device) bool {
	return d.Free && (w.Model == "" || w.Model == d.Model)
}

// by is a set of attributes that divides devices into islands: those alike in all of it. The empty set
// makes one island of all.
type by uint8

const (
	byClique by = 1 << iota
	byNUMA
)

// where is the attributes that the pod wishes as much as this.
func (w *Want) where(wish Wish) by {
	var set by
	if w.Clique == wish {
		set |= byClique
	}
	if w.NUMA == wish {
		set |= byNUMA
	}
	return set
}

// together tells whether devices i and j are in one island.
func together(devs []Device, i, j int, by by) bool {
	if i == j {
		return true
	}
	a, b := &devs[i], &devs[j]
	if by&byNUMA != 0 && (a.NUMA != b.NUMA || a.NUMA < 0) {
		return false
	}
	return by&byClique == 0 || a.Clique != "" && a.Clique == b.Clique
}
