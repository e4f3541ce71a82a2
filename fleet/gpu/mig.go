package gpu

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// Profile is a kind of GPU instance that MIG can cut out of a GPU. An instance takes Size neighbouring memory slots of the
// GPU and Slices of its compute slices; it must begin at one of Starts, so instances that would fit by their sum may not fit
// where the others are.
type Profile struct {
	Name      string // "1g.10gb"; "1g.10gb+me" with the media engines
	ID        int    // the driver's number, as nvidia-smi mig -cgi takes it
	Slices    int    // compute slices
	Size      int    // memory slots
	Starts    []int  // memory slots at which an instance may begin, ascending
	Max       int    // most instances of it on one GPU
	MemoryMiB int
	SMs       int
	Engines   Engines
}

// Engines are the fixed-function units of a GPU instance.
type Engines struct{ Copy, Decoder, Encoder, JPEG, OFA int }

// Instance is a GPU instance on one GPU.
type Instance struct {
	Profile Profile
	Start   int  // the first of its memory slots
	Compute bool // it has its compute instance: without one no program can use it
}

// Error is an answer of NVML, in its words.
type Error string

func (e Error) Error() string { return string(e) }

// Why an instance cannot be created or destroyed.
const (
	ErrInsufficient Error = "Insufficient Resources"
	ErrInvalid      Error = "Invalid Argument"
	ErrNotFound     Error = "Not Found"
	ErrInUse        Error = "In use by another client"
)

// Profiles lists what the model can be cut into, in the order of nvidia-smi mig -lgip: from the smallest. A model without
// MIG has none. The caller must not write to it.
func (m Model) Profiles() []Profile {
	if !m.MIG {
		return nil
	}
	return migTables[m.Name]
}

// Profile finds one by its name, as nvidia-smi writes it or as a resource name has it ("1g.10gb.me"), or by its number.
func (m Model) Profile(name string) (Profile, bool) {
	for _, p := range m.Profiles() {
		if name == p.Name || name == p.ResourceName() || name == fmt.Sprint(p.ID) {
			return p, true
		}
	}
	return Profile{}, false
}

// Slots is the number of memory slots of the GPU; 0 without MIG.
func (m Model) Slots() int {
	n := 0
	for _, p := range m.Profiles() {
		n = max(n, p.Size)
	}
	return n
}

// Slices is the number of compute slices of the GPU; 0 without MIG.
func (m Model) Slices() int {
	n := 0
	for _, p := range m.Profiles() {
		n = max(n, p.Slices)
	}
	return n
}

// ResourceName is the profile as it stands in labels and in nvidia.com/mig-NAME, where a plus is not allowed.
func (p Profile) ResourceName() string { return strings.ReplaceAll(p.Name, "+", ".") }

// media says whether the profile has the GPU's one set of media engines.
func (p Profile) media() bool { return strings.HasSuffix(p.Name, "+me") }

// instanceID is the number of the GPU instance, which follows from where it is: the driver numbers all blocks of the GPU, halving
// it again and again, from the whole (0) over the halves (1, 2) to the single slots (7 to 13, or 3 to 6 on a GPU with four).
func (m Model) instanceID(i Instance) int {
	blocks := m.Slots() / i.Profile.Size
	return blocks - 1 + i.Start/i.Profile.Size
}

// GPUInstance is the number of the GPU instance on its GPU.
func (d Device) GPUInstance(i Instance) int { return d.Model.instanceID(i) }

// InstanceUUID is the UUID of the MIG device: of the instance with its one compute instance. It follows from the GPU and the
// place of the instance alone, so that an instance that is made again has the same.
func (d Device) InstanceUUID(i Instance) string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/gi/%d/%s/ci/0", d.UUID, d.GPUInstance(i), i.Profile.Name))
	id[6] = id[6]&0x0f | 0x50 // a UUID of version 5, made from a name
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("MIG-%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// Free lists the slots at which an instance of p can begin beside those that are there, ascending.
func (m Model) Free(have []Instance, p Profile) []int {
	compute, same, media := 0, 0, false
	for _, i := range have {
		compute += i.Profile.Slices
		media = media || i.Profile.media()
		if i.Profile.Name == p.Name {
			same++
		}
	}
	if same >= p.Max || compute+p.Slices > m.Slices() || media && p.media() {
		return nil
	}
	var out []int
	for _, start := range p.Starts {
		if !occupied(have, start, p.Size) {
			out = append(out, start)
		}
	}
	return out
}

func occupied(have []Instance, start, size int) bool {
	return slices.ContainsFunc(have, func(i Instance) bool {
		return start < i.Start+i.Profile.Size && i.Start < start+size
	})
}

// Room is how many more instances of p there can be.
func (m Model) Room(have []Instance, p Profile) int {
	now := slices.Clone(have)
	for n := 0; ; n++ {
		free := m.Free(now, p)
		if len(free) == 0 {
			return n
		}
		now = append(now, Instance{Profile: p, Start: free[0]})
	}
}

// Create adds an instance of p, with its compute instance or without, and returns the new list in order of Start; the old
// one is not changed. A negative start lets the driver choose: it takes the slot that leaves most room for the largest
// profile, then for the next, and of equals the first. On an H200 seven 1g instances go to the slots 6, 4, 5, 0, 1, 2, 3.
func (m Model) Create(have []Instance, p Profile, start int, compute bool) ([]Instance, Instance, error) {
	if own, known := m.Profile(p.Name); !known || own.ID != p.ID || start >= 0 && !slices.Contains(p.Starts, start) {
		return nil, Instance{}, ErrInvalid
	}
	free := m.Free(have, p)
	switch {
	case len(free) == 0 || start >= 0 && !slices.Contains(free, start):
		return nil, Instance{}, ErrInsufficient
	case start < 0:
		start = m.best(have, p, free)
	}
	made := Instance{Profile: p, Start: start, Compute: compute}
	return with(have, made), made, nil
}

func with(have []Instance, add Instance) []Instance {
	out := append(slices.Clone(have), add)
	slices.SortFunc(out, func(a, b Instance) int { return a.Start - b.Start })
	return out
}

func (m Model) best(have []Instance, p Profile, free []int) int {
	var best int
	var bestRoom []int
	for i, start := range free {
		if room := m.leaves(with(have, Instance{Profile: p, Start: start})); i == 0 || slices.Compare(room, bestRoom) > 0 {
			best, bestRoom = start, room
		}
	}
	return best
}

// leaves counts where instances of each profile could still begin, the largest profile first.
func (m Model) leaves(have []Instance) []int {
	var out []int
	for _, p := range slices.Backward(m.Profiles()) {
		out = append(out, len(m.Free(have, p)))
	}
	return out
}

// Layout is the instances that mig-parted would make of a GPU for so many of each profile, each with its compute instance.
// The GPU is empty before. The error is ErrInvalid for a profile that the model does not have, and ErrInsufficient where no
// placement has room for all.
func (m Model) Layout(counts map[string]int) ([]Instance, error) {
	var wanted []Profile
	for name, n := range counts {
		p, known := m.Profile(name)
		if !known || n < 0 {
			return nil, ErrInvalid
		}
		if n > m.Slots() {
			return nil, ErrInsufficient
		}
		for range n {
			wanted = append(wanted, p)
		}
	}
	// Large ones first, and of one size those with fewer places. The rest then fits if anything does: the places of
	// smaller profiles lie inside or outside those of a larger one, never across its edge.
	slices.SortFunc(wanted, func(a, b Profile) int {
		if a.Size != b.Size {
			return b.Size - a.Size
		}
		if len(a.Starts) != len(b.Starts) {
			return len(a.Starts) - len(b.Starts)
		}
		return strings.Compare(b.Name, a.Name)
	})
	var out []Instance
	for _, p := range wanted {
		var err error
		if out, _, err = m.Create(out, p, -1, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}
