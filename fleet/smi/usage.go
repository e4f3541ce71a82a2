package smi

import (
	"fmt"

	"github.com/berth-dev/berth/fleet/gpu"
)

// usage lists what this program can do, which is less than the real one can.
func usage(d gpu.Driver) string {
	v := d.Version
	if v == "" {
		v = "(no driver)"
	}
	return fmt.Sprintf("NVIDIA System Management Interface -- v%s\n%s", v, usageText)
}

const usageText = `
The GPUs of this machine are simulated. Of the real program's options these are here:

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    <no arguments>              A table of the GPUs and their processes.
    -h,   --help                This text.
          --version             Versions of the program, the driver and CUDA.
    -L,   --list-gpus           One line for each GPU.
    -B,   --list-excluded-gpus  GPUs that are kept from use.
    -q,   --query               A long report on each GPU.
    -d,   --display=            With -q: only MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER,
                                CLOCK, COMPUTE, PIDS, PERFORMANCE or ROW_REMAPPER.
          --query-gpu=          Chosen properties of each GPU; see --help-query-gpu.
          --query-compute-apps= Chosen properties of each process; see
                                --help-query-compute-apps.
          --format=             For these two: csv, noheader, nounits.

    -i,   --id=                 Only the GPUs with these indices, UUIDs or bus ids.
    -l,   --loop=               Again every so many seconds.
    -lms, --loop-ms=            Again every so many milliseconds.

    dmon                        GPU readings, line after line.
    pmon                        Processes, line after line.
    topo -m                     How the GPUs reach each other.
    nvlink -s                   The state of the NVLinks.
    mig                         MIG: profiles and instances; see mig -h.
    -mig 0|1                    MIG mode off or on.
`

const dmonUsage = `
    Usage: nvidia-smi dmon [options]

    [-i | --id]:       GPUs by index, UUID or bus id, separated by commas
    [-d | --delay]:    seconds between samples [default=1]
    [-c | --count]:    end after so many samples
    [-s | --select]:   metrics [default=puc]: p power and temperature, u utilization,
                       c clocks, v violations, m memory, e errors, t PCIe throughput
    [-o | --options]:  D: with the date, T: with the time
    [-h | --help]:     this text
`

const pmonUsage = `
    Usage: nvidia-smi pmon [options]

    [-i | --id]:       GPUs by index, UUID or bus id, separated by commas
    [-d | --delay]:    seconds between samples [default=1]
    [-c | --count]:    end after so many samples
    [-h | --help]:     this text
`

const topoUsage = `
    Usage: nvidia-smi topo [options]

    [-m | --matrix]:       how the GPUs reach each other
    [-mp | --matrix_pci]:  the same over PCIe alone
    [-h | --help]:         this text
`

const nvlinkUsage = `
    Usage: nvidia-smi nvlink [options]

    [-s | --status]:  the speed of every link that is up
    [-i | --id]:      GPUs by index, UUID or bus id, separated by commas
    [-h | --help]:    this text
`
