package gpu

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Group is a number of equal GPUs in one machine.
type Group struct {
	Model     Model
	Count     int
	MemoryMiB int  // 0: the model's own
	NVLink    bool // all of the group's GPUs are linked to each other; ignored where the board has no NVLink
}

// Devices builds the GPUs of one machine in the order of groups. Nothing in it is random:
// the same node and groups give the same devices in every process, and a UUID depends on the
// node and index alone, so it outlives a change of the other GPUs. The first half of the
// machine's GPUs hangs on NUMA node 0 and the rest on node 1, as in a two-socket server; a
// machine with one GPU has one NUMA node.
func Devices(node string, groups []Group) []Device {
	total := 0
	for _, g := range groups {
		total += max(g.Count, 0)
	}
	devices := make([]Device, 0, total)
	for link, g := range groups {
		for range max(g.Count, 0) {
			devices = append(devices, g.device(node, len(devices), total, link))
		}
	}
	return devices
}

func (g Group) device(node string, index, total, link int) Device {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/gpu/%d", node, index))
	d := Device{
		Index:     index,
		UUID:      fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		BusID:     busID(index, total),
		Serial:    serial(id[16:24]),
		Model:     g.Model,
		MemoryMiB: g.MemoryMiB,
		NUMA:      numa(index, total),
		NVLink:    -1,
	}
	if d.MemoryMiB == 0 {
		d.MemoryMiB = g.Model.MemoryMiB
	}
	if g.NVLink && g.Model.NVLinks > 0 && g.Count > 1 {
		d.NVLink = link
	}
	return d
}

func numa(index, total int) int {
	if index < (total+1)/2 {
		return 0
	}
	return 1
}

// busID spreads the GPUs over PCI buses the way servers do: the second socket's buses start
// at 0x80, and each GPU sits behind a bridge of its own. Beyond 14 GPUs per socket a bus id
// has no room on one PCI segment, and the next segment (domain) is used.
func busID(index, total int) string {
	half := (total + 1) / 2
	slot := index - numa(index, total)*half
	bus := 0x0A + (slot%14)*8 + numa(index, total)*0x80
	return fmt.Sprintf("%08X:%02X:00.0", slot/14, bus)
}

// serial is thirteen digits, as NVIDIA prints them.
func serial(seed []byte) string {
	return fmt.Sprintf("165%010d", binary.BigEndian.Uint64(seed)%1e10)
}
