package smi

import (
	"fmt"

	"github.com/berth-dev/berth/fleet/gpu"
)

// app is one compute process on one GPU.
type app struct {
	gpu.Process
	on view
}

// apps lists the processes in order of GPU.
func apps(gpus []view) []app {
	var out []app
	for _, g := range gpus {
		for _, p := range g.Processes {
			out = append(out, app{p, g})
		}
	}
	return out
}

// appFields are the properties of --query-compute-apps.
func appFields() []field[app] {
	return []field[app]{
		{"timestamp", "", "", func(r *run, _ app) string { return r.host.Now.Format(stamp) }},
		{"gpu_name", "", "", func(_ *run, a app) string { return a.on.Model.Product }},
		{"gpu_bus_id", "", "", func(_ *run, a app) string { return a.on.BusID }},
		{"gpu_serial", "", "", func(_ *run, a app) string { return a.on.serial() }},
		{"gpu_uuid", "", "", func(_ *run, a app) string { return a.on.UUID }},
		{"pid", "", "", func(_ *run, a app) string { return fmt.Sprint(a.PID) }},
		{"process_name", "name", "", func(_ *run, a app) string { return a.Name }},
		{"used_gpu_memory", "used_memory", "MiB", func(_ *run, a app) string { return fmt.Sprint(a.UsedMiB) }},
	}
}
