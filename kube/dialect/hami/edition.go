package hami

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Edition is HAMi's device plugin under the names of whoever ships it. Volcano's plugin for vGPUs is HAMi's with annotations and resources
// of its own: Project-HAMi/volcano-vgpu-device-plugin, commit 4fb76ba1 (pkg/util/types.go, pkg/util/util.go, pkg/plugin/register.go), and
// volcano-sh/volcano, commit ed72c7c8 (pkg/scheduler/api/devices/nvidia/vgpu).
type Edition struct {
	Name string // as a Pool's sharing has it

	// Annotations of nodes.
	Register, LockKey string
	// Annotations of pods that whoever schedules writes.
	Node, Time, ToAllocate, Allocated, BindTime, BindPhase string
	// Annotations by which people ask.
	Mode, UseUUID, NoUseUUID string
	// Resources of containers. A node offers each GPU several times as Count.
	Count, Memory, Percentage, Cores string

	// CountAsks says that a container that asks for Count alone asks the plugin: the resource is nobody else's.
	CountAsks bool
	// PercentageFirst says that a percentage counts where a container says an amount of memory too. Else the amount counts.
	PercentageFirst bool
	// OffersAmounts says that nodes offer Memory and Cores, in sum, as resources that the kubelet counts.
	OffersAmounts bool
	// Mains says that containers other than init containers alone get GPUs, and are in the annotations.
	Mains bool
}

// Own is what HAMi ships.
func Own() Edition {
	return Edition{
		Name: "hami", Register: KeyRegister, LockKey: KeyLock,
		Node: KeyNode, Time: KeyTime, ToAllocate: KeyToAllocate, Allocated: KeyAllocated, BindTime: KeyBindTime, BindPhase: KeyBindPhase,
		Mode: KeyMode, UseUUID: KeyUseUUID, NoUseUUID: KeyNoUseUUID,
		Count: "nvidia.com/gpu", Memory: ResMemory, Percentage: ResPercentage, Cores: ResCores,
	}
}

// Volcano is what Volcano's users install.
func Volcano() Edition {
	return Edition{
		Name: "volcano", Register: "volcano.sh/node-vgpu-register", LockKey: "hamivgpu",
		Node: "volcano.sh/vgpu-node", Time: "volcano.sh/vgpu-time", ToAllocate: "volcano.sh/devices-to-allocate",
		Allocated: "volcano.sh/vgpu-ids-new", BindTime: "volcano.sh/bind-time", BindPhase: "volcano.sh/bind-phase",
		Mode: "volcano.sh/vgpu-mode", UseUUID: "volcano.sh/vgpu-use-gpuuuid", NoUseUUID: "volcano.sh/vgpu-nouse-gpuuuid",
		Count: "volcano.sh/vgpu-number", Memory: "volcano.sh/vgpu-memory", Percentage: "volcano.sh/vgpu-memory-percentage", Cores: "volcano.sh/vgpu-cores",
		CountAsks: true, PercentageFirst: true, OffersAmounts: true, Mains: true,
	}
}

// Editions are all of them.
func Editions() []Edition { return []Edition{Own(), Volcano()} }

// Written are the annotations of pods that whoever schedules writes.
func (e *Edition) Written() []string {
	return []string{e.Node, e.Time, e.ToAllocate, e.Allocated, e.BindTime, e.BindPhase}
}

// Devices reads what the plugin has registered on a node.
func (e *Edition) Devices(text string) ([]Device, error) {
	if e.Name == Own().Name {
		return Registered(text)
	}
	if len(text) > maxRegister {
		return nil, fmt.Errorf("%s: more than %d bytes, the limit", e.Register, maxRegister)
	}
	var out []Device
	for entry := range strings.SplitSeq(text, ":") {
		if !strings.Contains(entry, ",") {
			continue
		}
		d, ok := readEntry(entry)
		if !ok || len(out) == maxDevices {
			return nil, fmt.Errorf("%s is no list of up to %d devices", e.Register, maxDevices)
		}
		d.Index = uint(len(out))
		out = append(out, d)
	}
	return out, check(e.Register, out)
}

// readEntry reads ID,COUNT,MiB,TYPE,HEALTH,MODE. Versions before modes left the last away.
func readEntry(entry string) (d Device, ok bool) {
	f := strings.Split(entry, ",")
	if len(f) < 5 {
		return d, false
	}
	count, err := strconv.ParseInt(f[1], 10, 32)
	memory, err2 := strconv.ParseInt(f[2], 10, 32)
	health, err3 := strconv.ParseBool(f[4])
	if err != nil || err2 != nil || err3 != nil {
		return d, false
	}
	d = Device{ID: f[0], Count: int32(count), Memory: int32(memory), Cores: 100, Type: f[3], NUMA: -1, Health: health}
	if len(f) > 5 {
		d.Mode = f[5]
	}
	return d, true
}

// Registration writes what Devices reads.
func (e *Edition) Registration(devices []Device) string {
	if e.Name == Own().Name {
		return Register(devices)
	}
	var b strings.Builder
	for i := range devices {
		d := &devices[i]
		fmt.Fprintf(&b, "%s,%d,%d,%s,%t,%s:", d.ID, d.Count, d.Memory, d.Type, d.Health, d.Mode)
	}
	return b.String()
}

// Allocation is the annotations with which a pod is bound to the node. Containers are in the order of the pod's init containers, where
// the edition has them, and then its containers, those without GPUs included.
func (e *Edition) Allocation(node string, now time.Time, containers [][]Grant) map[string]string {
	var b strings.Builder
	for i, grants := range containers {
		if e.Mains && i > 0 {
			b.WriteByte(';')
		}
		for _, g := range grants {
			fmt.Fprintf(&b, "%s,%s,%d,%d:", g.UUID, vendor, g.Memory, g.Cores)
		}
		if !e.Mains {
			b.WriteByte(';')
		}
	}
	at := strconv.FormatInt(now.Unix(), 10)
	return map[string]string{
		e.Node: node, e.Time: at, e.BindTime: at, e.BindPhase: "allocating", e.ToAllocate: b.String(), e.Allocated: b.String(),
	}
}
