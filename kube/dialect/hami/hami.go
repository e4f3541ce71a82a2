// Package hami reads and writes what HAMi keeps on nodes and pods: which GPUs its device plugin has registered on a node, which of
// them, and how much of each, a pod is to get, and the lock that lets one pod at a time be allocated on a node. It decides nothing.
// kube/convert and kube/scheduler call it.
//
// The formats are those of Project-HAMi/HAMi v2.10.0 (commit 4707fb02): pkg/device/devices.go (MarshalNodeDevices,
// EncodePodSingleDevice), pkg/device/nvidia/device.go (PatchAnnotations), pkg/scheduler/scheduler.go (Bind) and
// pkg/util/nodelock/nodelock.go.
package hami

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SchedulerName is what HAMi's webhook puts into spec.schedulerName of pods that ask for its GPUs and name none, or Kubernetes' own
// (charts/hami/values.yaml; pkg/scheduler/webhook.go).
const SchedulerName = "hami-scheduler"

// Annotations of nodes.
const (
	KeyRegister  = "hami.io/node-nvidia-register" // the GPUs of the node, as its device plugin says
	KeyHandshake = "hami.io/node-handshake"       // Requesting_TIME of a scheduler, Reported_TIME of the device plugin
	KeyLock      = "hami.io/mutex.lock"           // which pod is being allocated on the node
)

// Annotations of pods: written by whoever schedules, read by the device plugin.
const (
	KeyNode       = "hami.io/vgpu-node"
	KeyTime       = "hami.io/vgpu-time"
	KeyToAllocate = "hami.io/vgpu-devices-to-allocate"
	KeyAllocated  = "hami.io/vgpu-devices-allocated"
	KeyBindTime   = "hami.io/bind-time"
	KeyBindPhase  = "hami.io/bind-phase"
)

// Annotations by which people ask.
const (
	KeyUseType    = "nvidia.com/use-gputype"
	KeyNoUseType  = "nvidia.com/nouse-gputype"
	KeyUseUUID    = "nvidia.com/use-gpuuuid"
	KeyNoUseUUID  = "nvidia.com/nouse-gpuuuid"
	KeyMode       = "nvidia.com/vgpu-mode"
	KeyNUMABind   = "nvidia.com/numa-bind"          // true: all GPUs on one NUMA node
	KeyNodePolicy = "hami.io/node-scheduler-policy" // Binpack or Spread
	KeyGPUPolicy  = "hami.io/gpu-scheduler-policy"  // a list, of Binpack, Spread and others
	ResMemory     = "nvidia.com/gpumem"             // MiB of each GPU
	ResPercentage = "nvidia.com/gpumem-percentage"  // of each GPU's memory
	ResCores      = "nvidia.com/gpucores"           // percent of each GPU's compute
)

// Policies by which nodes and GPUs are chosen (pkg/util/types.go). Nodes are packed by default, GPUs spread.
const (
	Binpack = "binpack"
	Spread  = "spread"
)

// UUIDs reads a list of KeyUseUUID or KeyNoUseUUID as CheckUUID of pkg/device/devices.go does: names between commas, spaces around them
// aside, compared as they stand. An empty value is no list; of one that has nothing but commas no GPU is.
func UUIDs(list string) (names []string, said bool) {
	if strings.TrimSpace(list) == "" {
		return nil, false
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names, true
}

// Core is the mode of a GPU of which HAMi gives away parts itself; in others MIG or MPS does.
const Core = "hami-core"

// Device is one GPU that is registered on a node.
type Device struct {
	ID     string `json:"id,omitempty"`
	Index  uint   `json:"index,omitempty"`
	Count  int32  `json:"count,omitempty"`   // how many pods may share it
	Memory int32  `json:"devmem,omitempty"`  // MiB, scaled as the plugin is told to
	Cores  int32  `json:"devcore,omitempty"` // percent, likewise
	Type   string `json:"type,omitempty"`    // NVIDIA-, and the product
	NUMA   int    `json:"numa,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Health bool   `json:"health,omitempty"`
}

// Bounds of what a node may say.
const (
	maxRegister = 1 << 17 // bytes
	maxDevices  = 256
)

// Registered reads the value of KeyRegister. GPUs in other modes than Core are among them.
func Registered(text string) ([]Device, error) {
	if len(text) > maxRegister {
		return nil, fmt.Errorf("%s: more than %d bytes, the limit", KeyRegister, maxRegister)
	}
	var out []Device
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("%s is no JSON list of devices", KeyRegister)
	}
	if err := check(KeyRegister, out); err != nil {
		return nil, err
	}
	return out, nil
}

// check says what is wrong with a list of devices.
func check(key string, list []Device) error {
	if len(list) > maxDevices {
		return fmt.Errorf("%s: more than %d devices, the limit", key, maxDevices)
	}
	seen := make(map[string]bool, len(list))
	for i := range list {
		d := &list[i]
		if d.ID == "" || seen[d.ID] || d.Count < 0 || d.Memory < 0 || strings.ContainsAny(d.ID, ",:;/") {
			return fmt.Errorf("%s: device %d has no id, one that is there twice, or negative amounts", key, i)
		}
		seen[d.ID] = true
	}
	return nil
}

// Register writes the value of KeyRegister.
func Register(devices []Device) string {
	if devices == nil {
		devices = []Device{}
	}
	text, _ := json.Marshal(devices) // strings and numbers always can be
	return string(text)
}

// Grant is one GPU that a container gets, and how much of it.
type Grant struct {
	UUID   string
	Memory int64 // MiB
	Cores  int64 // percent; 0: whatever the others leave
}

// vendor is what HAMi calls NVIDIA's devices in grants.
const vendor = "NVIDIA"

// Grants reads what an edition's Allocation wrote, by container.
func Grants(text string) (out [][]Grant, ok bool) {
	if len(text) > maxRegister {
		return nil, false
	}
	for container := range strings.SplitSeq(strings.TrimSuffix(text, ";"), ";") {
		var grants []Grant
		for part := range strings.SplitSeq(container, ":") {
			if part == "" {
				continue
			}
			fields := strings.Split(part, ",")
			if len(fields) < 4 || fields[0] == "" {
				return nil, false
			}
			memory, err := strconv.ParseInt(fields[2], 10, 32)
			cores, err2 := strconv.ParseInt(fields[3], 10, 32)
			if err != nil || err2 != nil || memory < 0 || cores < 0 {
				return nil, false
			}
			grants = append(grants, Grant{UUID: fields[0], Memory: memory, Cores: cores})
		}
		out = append(out, grants)
	}
	return out, true
}

// Lock is the value of KeyLock with which the node is locked for a pod.
func Lock(now time.Time, namespace, pod string) string {
	return now.Format(time.RFC3339) + "," + namespace + "," + pod
}

// LockTimeout is after how long a lock counts for nothing, as HAMi's scheduler has it by default.
const LockTimeout = 5 * time.Minute

// LockedFor reads the value of KeyLock. Older versions wrote the time alone. ok is false where nobody can tell.
func LockedFor(text string) (since time.Time, namespace, pod string, ok bool) {
	at, whose, _ := strings.Cut(text, ",")
	since, err := time.Parse(time.RFC3339, at)
	namespace, pod, _ = strings.Cut(whose, ",")
	return since, namespace, pod, err == nil
}
