package smi

import (
	"fmt"
	"strings"
)

var pmonOptions = spelling{
	"-i": {"-i", true}, "--id": {"-i", true},
	"-d": {"-d", true}, "--delay": {"-d", true},
	"-c": {"-c", true}, "--count": {"-c", true},
	"-h": {"-h", false}, "--help": {"-h", false},
}

// pmon prints one line per process and interval, and one for each GPU that has none.
func (r *run) pmon(args []string) *failure {
	s, err := subOptions(args, pmonOptions)
	if err != nil {
		r.print(err.text + pmonUsage)
		return nil
	}
	if s.has("-h") {
		r.print(pmonUsage)
		return nil
	}
	return r.scroll(s, pmonUsage, func(gpus []view, first bool) {
		if first {
			r.print("# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n" +
				"# Idx           #    C/G      %      %      %      %      %      %    name \n")
		}
		for _, g := range gpus {
			r.print(g.pmonRows())
		}
	})
}

// pmonRows shares the GPU's use equally among its processes: the simulation keeps no finer
// account.
func (v view) pmonRows() string {
	if len(v.Processes) == 0 {
		return pmonRow(v.shown, "-", "-", "-", "-", "-")
	}
	out, n := "", len(v.Processes)
	for _, p := range v.Processes {
		out += pmonRow(v.shown, fmt.Sprint(p.PID), "C", fmt.Sprint(v.UtilPercent/n), fmt.Sprint(v.MemUtilPercent/n), comm(p.Name))
	}
	return out
}

func pmonRow(index int, pid, kind, sm, mem, name string) string {
	return fmt.Sprintf("%5d%11s%6s%7s%7s%7s%7s%7s%7s    %-15s\n", index, pid, kind, sm, mem, "-", "-", "-", "-", name)
}

// comm is a process's name as the kernel keeps it: the last part of the path, 15 bytes at most.
func comm(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	return name[:min(len(name), 15)]
}
