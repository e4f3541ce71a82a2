package smi

import (
	"fmt"
	"strings"
)

var topoOptions = spelling{
	"-m": {"-m", false}, "--matrix": {"-m", false},
	"-mp": {"-mp", false}, "--matrix_pci": {"-mp", false},
	"-i": {"-i", true}, "--id": {"-i", true},
	"-h": {"-h", false}, "--help": {"-h", false},
}

// topo prints how the GPUs reach each other.
func (r *run) topo(args []string) *failure {
	s, err := subOptions(args, topoOptions)
	if err != nil {
		return err
	}
	if len(s) == 0 || s.has("-h") {
		r.print(topoUsage)
		return nil
	}
	if s.has("-i") {
		return &failure{"The -i command line argument must be used in conjunction with -n or -p.\n\n", exitUsage}
	}
	if r.host.Driver.Version == "" {
		return noDriver()
	}
	gpus, err := r.views(nil)
	if err != nil {
		return err
	}
	r.print(r.matrix(gpus, !s.has("-mp")))
	return nil
}

// matrix is the table of topo -m, and of topo -mp when nvlink is false. The header is
// underlined with an escape sequence even in a pipe, as the real one is.
func (r *run) matrix(gpus []view, nvlink bool) string {
	var b strings.Builder
	b.WriteString("\t\x1b[4m")
	for _, g := range gpus {
		fmt.Fprintf(&b, "GPU%d\t", g.shown)
	}
	b.WriteString("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n")
	for _, g := range gpus {
		fmt.Fprintf(&b, "GPU%d\t", g.shown)
		for _, other := range gpus {
			b.WriteString(path(g, other, nvlink) + "\t")
		}
		fmt.Fprintf(&b, "%s\t%d\t\tN/A\n", r.affinity(g), g.NUMA)
	}
	b.WriteString(topoLegend)
	if nvlink {
		b.WriteString("  NV#  = Connection traversing a bonded set of # NVLinks\n")
	}
	return b.String()
}

// path is the closest connection of two GPUs. Every GPU has a host bridge of its own, so
// without NVLink it is the NUMA node or what lies between two of them.
func path(a, b view, nvlink bool) string {
	switch {
	case a.UUID == b.UUID:
		return " X "
	case nvlink && a.Linked() && a.NVLink == b.NVLink:
		return fmt.Sprintf("NV%d", a.Model.NVLinks)
	case a.NUMA == b.NUMA:
		return "NODE"
	}
	return "SYS"
}

// affinity is the range of CPUs on the GPU's NUMA node.
func (r *run) affinity(v view) string {
	n := r.host.NUMACPUs
	if n <= 0 {
		n = 64
	}
	return fmt.Sprintf("%d-%d", v.NUMA*n, (v.NUMA+1)*n-1)
}

const topoLegend = `
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
`
