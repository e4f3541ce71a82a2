// Package smi is nvidia-smi for simulated GPUs: it prints what the real program (driver branch
// R580) prints, to the character where people or scripts look, for devices that exist only as
// gpu.Reading values.
//
// It reads nothing but its Host argument and, MIG apart, changes nothing: options that would configure a
// GPU say that they are not available. Layouts, field names and error messages are quoted from
// the real program because people and scripts look for them; help texts are our own.
// fleet/kubelet offers it to the shell of every container that holds GPUs, and to the pods of
// the GPU stack.
package smi

import (
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/fleet/gpu"
)

// Host is what one run of nvidia-smi can see.
type Host struct {
	GPUs   []gpu.Reading
	Driver gpu.Driver // empty Version: no driver is loaded
	Now    time.Time

	// Sleep waits between the rounds of -l and dmon; an error ends the program. Nil: one round
	// is all there is.
	Sleep func(time.Duration) error
	// Read gives fresh readings and the time after a Sleep. Nil: GPUs stays as it is and the
	// time moves on by what was slept.
	Read func() ([]gpu.Reading, time.Time)

	// All is the view of the whole machine, with the machine's GPU indices. Otherwise the GPUs
	// are those of a container, which numbers what it has from 0.
	All bool
	// Cut changes what MIG makes of a GPU. Nil: whoever runs the program may not.
	Cut func(uuid string, next gpu.Partition) error
	// NUMACPUs is the number of logical CPUs on one NUMA node, for topo; 0: 64.
	NUMACPUs int
}

// Exit codes, as the manual of nvidia-smi lists them.
const (
	exitOK           = 0
	exitBadArgument  = 2
	exitNotAvailable = 3
	exitNotFound     = 6
	exitNoDriver     = 9
	exitInterrupted  = 130
	exitUsage        = 255
)

// failure ends the program with a message, which like the real one goes to standard output.
type failure struct {
	text string
	code int
}

func noDriver() *failure {
	return &failure{"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. " +
		"Make sure that the latest NVIDIA driver is installed and running.\n\n", exitNoDriver}
}

func noDevices() *failure { return &failure{"No devices were found\n", exitNotFound} }

func notAvailable(option string) *failure {
	return &failure{fmt.Sprintf("Option %q is not available: the GPUs of this machine are simulated.\n", option), exitNotAvailable}
}

// Main runs nvidia-smi with args (without the program's name) and returns its exit code.
// Everything it has to say goes to stdout; stderr is only for a stdout that fails.
func Main(args []string, host Host, stdout, stderr io.Writer) int {
	run := &run{host: host, out: stdout}
	err := run.main(args)
	if run.failed != nil {
		fmt.Fprintf(stderr, "nvidia-smi: write output: %v\n", run.failed)
		return exitUsage
	}
	if err == nil {
		return exitOK
	}
	run.print(err.text)
	return err.code
}

// run is one execution.
type run struct {
	host   Host
	out    io.Writer
	failed error // the first error of out
}

func (r *run) print(text string) {
	if r.failed == nil {
		_, r.failed = io.WriteString(r.out, text)
	}
}

func (r *run) printf(format string, args ...any) { r.print(fmt.Sprintf(format, args...)) }

// main sends the arguments to the subcommand they name, or to the options of the plain command.
func (r *run) main(args []string) *failure {
	if len(args) > 0 {
		switch args[0] {
		case "dmon":
			return r.dmon(args[1:])
		case "pmon":
			return r.pmon(args[1:])
		case "topo":
			return r.topo(args[1:])
		case "nvlink":
			return r.nvlink(args[1:])
		case "mig":
			return r.mig(args[1:])
		}
		if otherSubcommands[args[0]] {
			return notAvailable(args[0])
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	return r.command(o)
}

// otherSubcommands exist in the real program and not here.
var otherSubcommands = map[string]bool{
	"daemon": true, "replay": true, "drain": true, "c2c": true, "clocks": true, "encodersessions": true,
	"fbcsessions": true, "vgpu": true, "compute-policy": true, "boost-slider": true,
	"power-hint": true, "base-clocks": true, "conf-compute": true, "gpm": true, "pci": true,
	"power-smoothing": true, "power-profiles": true, "prm": true,
}

func (r *run) command(o options) *failure {
	switch o.verb {
	case verbHelp:
		r.print(usage(r.host.Driver))
		return nil
	case verbHelpQueryGPU:
		r.print(describeFields("--query-gpu", gpuFields()))
		return nil
	case verbHelpQueryApps:
		r.print(describeFields("--query-compute-apps", appFields()))
		return nil
	}
	if r.host.Driver.Version == "" {
		return noDriver()
	}
	switch o.verb {
	case verbVersion:
		r.print(version(r.host.Driver))
		return nil
	case verbExcluded:
		r.print("No excluded devices found.\n")
		return nil
	case verbList:
		return r.list()
	case verbMIG:
		return r.setMIG(o)
	case verbQueryGPU:
		return r.queryGPU(o)
	case verbQueryApps:
		return r.queryApps(o)
	case verbLog:
		return r.repeat(o.loop, o.ids, func(gpus []view, _ bool) { r.print(r.log(gpus, o.display)) })
	}
	return r.repeat(o.loop, o.ids, func(gpus []view, _ bool) { r.print(r.summary(gpus)) })
}

func (r *run) list() *failure {
	gpus, err := r.views(nil)
	if err != nil {
		return err
	}
	for _, g := range gpus {
		r.printf("GPU %d: %s (UUID: %s)\n", g.shown, g.Model.Product, g.UUID)
		for i, p := range g.devices() {
			r.printf("  MIG %-11s Device %2d: (UUID: %s)\n", bare(p.Profile), i, g.InstanceUUID(p.Instance))
		}
	}
	return nil
}

// repeat calls show once, or again after every interval until the program is stopped.
func (r *run) repeat(interval time.Duration, ids []string, show func(gpus []view, first bool)) *failure {
	for first := true; ; first = false {
		gpus, err := r.views(ids)
		if err != nil {
			return err
		}
		show(gpus, first)
		if interval == 0 || r.host.Sleep == nil {
			return nil
		}
		if err := r.wait(interval); err != nil {
			return err
		}
	}
}

// wait sleeps and brings the readings up to date.
func (r *run) wait(d time.Duration) *failure {
	if r.failed != nil || r.host.Sleep(d) != nil {
		return &failure{code: exitInterrupted}
	}
	if r.host.Read != nil {
		r.host.GPUs, r.host.Now = r.host.Read()
		return nil
	}
	r.host.Now = r.host.Now.Add(d)
	return nil
}
