package doctor

import (
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// APIVersion and Kind of what is printed as JSON. The fields of Checkup are a contract with other tools, and
// cli/testdata/doctor.json is its golden file. Fields are added, never renamed.
//
//	2026-11-16  v1alpha1: the first version
//	2026-11-19  v1alpha1: item operators
const (
	APIVersion = "berth.dev/v1alpha1"
	Kind       = "Checkup"
)

// Severity is how much an item, or a finding, matters.
type Severity string

const (
	OK      Severity = "ok"
	Note    Severity = "note"    // worth knowing; no action is needed
	Unknown Severity = "unknown" // it could not be looked at, or only in part, and what was seen is well
	Warn    Severity = "warn"    // work may be slower, fewer GPUs can be used, or a promise cannot be kept
	Fail    Severity = "fail"    // GPU work fails or can never start
)

// Rank orders severities: the worst is the highest.
func (s Severity) Rank() int {
	switch s {
	case Fail:
		return 4
	case Warn:
		return 3
	case Unknown:
		return 2
	case Note:
		return 1
	}
	return 0
}

// Checkup is the answer: every item of the checklist, the worst first.
type Checkup struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	At         time.Time      `json:"at"`
	Kubernetes string         `json:"kubernetes,omitempty"` // version of the API server
	Severity   Severity       `json:"severity"`             // of the worst item
	Items      []ItemResult   `json:"items"`                // by severity, then in the order of the checklist
	GPUs       []Capacity     `json:"gpus,omitempty"`       // by resource
	Unseen     []facts.Unseen `json:"unseen,omitempty"`     // what the caller may not read, and so is not known
}

// ItemResult is one item of the checklist.
type ItemResult struct {
	Item     string    `json:"item"` // code, never renamed: "device-plugin"
	Title    string    `json:"title"`
	Severity Severity  `json:"severity"`
	Summary  string    `json:"summary"`            // one sentence
	Findings []Finding `json:"findings,omitempty"` // the worst first
}

// Finding is one thing that is not as it should be. Objects with the same fault and the same remedy are one finding.
type Finding struct {
	Severity Severity    `json:"severity"`
	Message  string      `json:"message"` // what is wrong, with names and numbers; no capital, no full stop
	Owner    check.Owner `json:"owner"`
	// Objects are those that are at fault, kind/name or kind/namespace/name: MaxListed at most. Count is how many there are.
	Objects  []string         `json:"objects,omitempty"`
	Count    int              `json:"count,omitempty"`
	Evidence []facts.Evidence `json:"evidence,omitempty"` // MaxListed at most
	Next     string           `json:"next"`               // the fix, or the role that has to find one
	Command  string           `json:"command,omitempty"`  // that makes it, or shows more
}

// MaxListed bounds the objects, and the evidence, of one finding: a fault of five thousand nodes is one fault.
const MaxListed = 20

// Capacity is how full and how broken up the GPUs of one resource are.
type Capacity struct {
	Resource string  `json:"resource"` // "nvidia.com/gpu"
	All      Usage   `json:"all"`
	Pools    []Usage `json:"pools,omitempty"`
	Models   []Usage `json:"models,omitempty"`
	// Largest is the most GPUs that a job could get at once, by model and level of the topology: cordoned nodes, and
	// those that are not Ready or otherwise closed, do not count.
	Largest []engine.Largest `json:"largest,omitempty"`
}

// Usage counts the GPUs of a pool, of a model, or of all nodes.
type Usage struct {
	Pool          string  `json:"pool,omitempty"`
	Model         string  `json:"model,omitempty"`
	Nodes         int     `json:"nodes"`
	FreeNodes     int     `json:"freeNodes"`     // nodes that have GPUs and have given away none
	GPUs          int64   `json:"gpus"`          // G: allocatable
	Allocated     int64   `json:"allocated"`     // g: requested by pods on the nodes
	InUse         int64   `json:"inUse"`         // G over the nodes with g > 0
	Utilisation   float64 `json:"utilisation"`   // sum g / sum G
	Fragmentation float64 `json:"fragmentation"` // 1 - sum g / sum G over the nodes in use
}

// usageOf words the engine's count.
func usageOf(u engine.Usage) Usage {
	return Usage{
		Pool: u.Pool, Nodes: u.Nodes, FreeNodes: u.FreeNodes, GPUs: u.GPUs, Allocated: u.Allocated, InUse: u.InUse,
		Utilisation: rounded(u.Utilisation()), Fragmentation: rounded(u.Fragmentation()),
	}
}

// rounded keeps four places: more would only tell machines apart.
func rounded(v float64) float64 { return float64(int64(v*10000+0.5)) / 10000 }
