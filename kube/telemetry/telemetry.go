// Package telemetry reads how busy the GPUs of pods are, from DCGM exporters or from a Prometheus that scrapes them. It reads and
// decides nothing: what is idle, and for how long it may be, is kube/scheduler's to say, which calls it.
//
// A pod without a reading is unknown, not idle: exporters that are down, that do not attribute GPUs to pods, or that know nothing of
// a pod's resource claims have it that way.
package telemetry

import (
	"context"
	"math"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// Reading is the utilisation of the busiest GPU of a pod.
type Reading struct {
	Namespace, Pod string
	Percent        int
}

// Source is where readings come from. Nodes are those that anybody asks about.
type Source interface {
	Read(ctx context.Context, nodes []string) ([]Reading, error)
}

// The metrics of DCGM's exporter that tell whether a GPU works: of whole GPUs the part of the time in which a kernel ran, in percent,
// and of MIG instances, which have no such metric, the part of the time in which their engines were active, from 0 to 1.
const (
	utilisation = "DCGM_FI_DEV_GPU_UTIL"
	active      = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
)

// Wanted says whether a metric is read.
func Wanted(name string) bool { return name == utilisation || name == active }

// podKey is a pod by name: exporters tell no UID unless they are asked to.
type podKey struct{ namespace, name string }

// busiest collects the readings of samples.
type busiest map[podKey]int

// add takes in a sample. Values that are no utilisation, such as DCGM's marks for "not supported", are passed over.
func (b busiest) add(s doctor.Sample) {
	at := podKey{holder(s.Labels, "namespace"), holder(s.Labels, "pod")}
	if at.namespace == "" || at.name == "" || !Wanted(s.Name) {
		return
	}
	percent := s.Value
	if s.Name == active {
		percent *= 100
	}
	if math.IsNaN(percent) || percent < 0 || percent > 101 {
		return
	}
	b[at] = max(b[at], int(math.Ceil(percent))) // what is above 0 is not 0
}

// holder is a label about the container that has the GPU. A Prometheus that does not honour the exporter's labels renames them, and
// has its own about the exporter's pod under the name.
func holder(labels map[string]string, name string) string {
	if v := labels["exported_"+name]; v != "" {
		return v
	}
	return labels[name]
}

func (b busiest) readings() []Reading {
	out := make([]Reading, 0, len(b))
	for at, percent := range b {
		out = append(out, Reading{at.namespace, at.name, percent})
	}
	return out
}
