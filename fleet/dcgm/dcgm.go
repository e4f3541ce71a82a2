// Package dcgm writes what NVIDIA's DCGM exporter answers to GET /metrics, for GPUs that exist only as gpu.Reading values.
//
// Names, help texts, types, labels and their order are those of dcgm-exporter 4.4.1-4.6.0, the release that the fleet's
// DaemonSet names, because dashboards and alerts look for them. It writes the exporter's default counters and those of
// its optional ones that a simulated GPU can tell, or those of a list of collectors. It reads nothing but its
// argument: fleet/kubelet calls it for the exporter's pods.
package dcgm

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Node is one machine as its exporter sees it.
type Node struct {
	Hostname string // of the machine: the exporter's NODE_NAME
	Driver   string // version
	GPUs     []gpu.Reading
	// Holder is the container that has a device, named as gpu.Device.Visible has it. A GPU that several share is told of
	// one of them, as the exporter does it.
	Holder func(device string) (Holder, bool)
	// Collectors are the counters that the exporter is told to have, by name; nil: all.
	Collectors map[string]Collector
}

// Holder is a container.
type Holder struct{ Namespace, Pod, Container string }

// Append appends the page to b. It is about 11 KiB for each GPU.
func Append(b []byte, n Node) []byte {
	all := entities(n)
	for i := range counters {
		c, headed := &counters[i], false
		kind, help := c.kind, c.help
		if n.Collectors != nil {
			listed, on := n.Collectors[c.name]
			if !on {
				continue
			}
			kind, help = listed.Kind, listed.Help
		}
		for j := range all {
			e := &all[j]
			value, ok := c.value(e)
			if !ok || e.Trouble.Lost && c.own == nil {
				continue // nobody can ask a GPU that is lost, and the driver knows its last error
			}
			if !headed {
				b = append(append(append(append(b, "# HELP "...), c.name...), ' '), help...)
				b = append(append(append(append(b, "\n# TYPE "...), c.name...), ' '), kind...)
				b = append(b, '\n')
				headed = true
			}
			b = append(append(append(b, c.name...), '{'), e.labels...)
			b = append(b, e.before...)
			if c.own != nil {
				b = append(b, c.own(e)...)
			}
			b = append(b, e.after...)
			b = append(append(b, "} "...), value...)
			b = append(b, '\n')
		}
	}
	return b
}

// entity is what the exporter monitors: a GPU, or in MIG mode each of its instances.
type entity struct {
	*gpu.Reading
	part  *gpu.Part // nil: the whole GPU
	pipes gpu.Pipes

	labels        string // without braces, up to the attributes
	before, after string // attributes, which are in order of name: those before and behind a counter's own
}

func entities(n Node) []entity {
	all := make([]entity, 0, len(n.GPUs))
	for i := range n.GPUs {
		r := &n.GPUs[i]
		if len(r.Parts) == 0 {
			all = append(all, newEntity(n, r, nil))
		}
		for j := range r.Parts {
			all = append(all, newEntity(n, r, &r.Parts[j]))
		}
	}
	return all
}

func newEntity(n Node, r *gpu.Reading, part *gpu.Part) entity {
	index := strconv.Itoa(r.Index)
	labels := make([]byte, 0, 256)
	labels = label(labels, "gpu", index)
	labels = label(labels, "UUID", r.UUID)
	labels = label(labels, "pci_bus_id", r.BusID)
	labels = label(labels, "device", "nvidia"+index)
	labels = label(labels, "modelName", r.Model.Product)
	e := entity{Reading: r, part: part}
	visible := r.UUID
	if part != nil {
		labels = label(labels, "GPU_I_PROFILE", part.Profile.Name)
		labels = label(labels, "GPU_I_ID", strconv.Itoa(r.GPUInstance(part.Instance)))
		visible = r.InstanceUUID(part.Instance)
		e.pipes = r.Model.Pipes(part.Activity)
	} else {
		e.pipes = r.Model.Pipes(r.Activity)
	}
	if n.Hostname != "" {
		labels = label(labels, "Hostname", n.Hostname)
	}
	e.labels = string(label(labels, "DCGM_FI_DRIVER_VERSION", n.Driver))
	if n.Holder == nil {
		return e
	}
	if h, ok := n.Holder(visible); ok {
		e.before = "," + string(label(nil, "container", h.Container))
		after := label(nil, "namespace", h.Namespace)
		after = label(after, "pod", h.Pod)
		e.after = "," + string(label(after, "pod_uid", "")) // empty unless the exporter may ask the API server
	}
	return e
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label appends name="value", behind a comma unless it is the first.
func label(b []byte, name, value string) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = append(append(b, name...), `="`...)
	return append(append(b, escape.Replace(value)...), '"')
}
