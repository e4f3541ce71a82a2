package submit

import (
	"slices"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/rule"
	"github.com/berth-dev/berth/engine/why"
)

// Kind is of a Report printed as JSON. Its fields are a contract with other tools (ADR 37).
const Kind = "CheckReport"

// Verdict is what will become of a workload.
type Verdict string

const (
	Starts Verdict = "starts"
	Waits  Verdict = "waits"
	Never  Verdict = "never"
	Idle   Verdict = "idle" // it asks for no pods
	// Unknown is of one that nothing seen is in the way of, where nodes or the pods on them cannot be seen.
	Unknown Verdict = "unknown"
)

// Refused is the cause of an object that the API server does not take, and Invalid of one that is not what its kind says.
const (
	Refused why.Cause = "refused"
	Invalid why.Cause = "invalid-manifest"
)

// Report is the answer about manifests.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`
	// Against is what they were planned against: "cluster", "bundle" or "fleet".
	Against   string     `json:"against"`
	Workloads []Workload `json:"workloads"`
	// Findings are about objects that are no workloads: a quota, a queue.
	Findings []rule.Finding `json:"findings,omitempty"`
	Quotas   []Quota        `json:"quotas,omitempty"`
	// Assumes is what was taken for granted, since there was no cluster to ask.
	Assumes []string       `json:"assumes,omitempty"`
	Unseen  []facts.Unseen `json:"unseen,omitempty"`
}

// Workload is the answer about one object that has pods.
type Workload struct {
	Target  facts.Ref `json:"target"`
	File    string    `json:"file"`
	Line    int       `json:"line"`
	Verdict Verdict   `json:"verdict"`
	Pods    int       `json:"pods"`
	GPUs    int64     `json:"gpus"` // whole ones and slices
	// GPUParts are the parts of GPUs that its pods ask for, beside those; of one size once.
	GPUParts []GPUParts  `json:"gpuParts,omitempty"`
	Summary  string      `json:"summary"` // one sentence
	Cause    why.Cause   `json:"cause,omitempty"`
	Layer    check.Layer `json:"layer,omitempty"`
	Owner    check.Owner `json:"owner,omitempty"`
	Part     string      `json:"part,omitempty"` // whose pods the summary is about, where it has several

	Nodes []NodePods `json:"nodes,omitempty"` // where its pods go, by name
	Terms *Terms     `json:"terms,omitempty"`
	For   []Holder   `json:"waitsFor,omitempty"` // the workloads that have what it waits for, most first
	ETA   *facts.ETA `json:"eta,omitempty"`

	Fixes    []Fix          `json:"fixes,omitempty"`
	Findings []rule.Finding `json:"findings,omitempty"`
}

// GPUParts is so many GPUs of each of which pods ask for a part: an amount of its memory or, where that is 0, a share of the GPU.
type GPUParts struct {
	GPUs        int64 `json:"gpus"`
	MemoryMiB   int64 `json:"memoryMiB,omitempty"`
	Thousandths int64 `json:"thousandths,omitempty"`
}

// NodePods is how many of the pods go to a node.
type NodePods struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
}

// Terms are what a start depends on, and what can end it.
type Terms struct {
	Scheduler   string           `json:"scheduler"`
	Queue       string           `json:"queue,omitempty"`
	Borrowed    map[string]int64 `json:"borrowed,omitempty"` // beyond the quota of its queue: it may have to be given back
	Preemptible bool             `json:"preemptible"`
	Priority    int32            `json:"priority"`
	Evicts      []string         `json:"evicts,omitempty"` // pods that make room for it
}

// Holder has some of what a workload waits for.
type Holder struct {
	Workload string `json:"workload"`
	Resource string `json:"resource"`
	Amount   int64  `json:"amount"`
	Starts   bool   `json:"starts,omitempty"` // it does not run yet, and is before it
}

// Fix is a change after which the workload starts, or waits where it could never start.
type Fix struct {
	Side    edit.Side `json:"side"`
	Edit    string    `json:"edit"`
	Patch   []edit.Op `json:"patch,omitempty"` // of the object in the file, as a JSON patch; nil: it is no change of the file
	Command string    `json:"command,omitempty"`
	// Verified says that the changed manifest was planned, or the changed cluster.
	Verified bool    `json:"verified"`
	Assumes  string  `json:"assumes,omitempty"`
	Outcome  string  `json:"outcome"`
	Then     Verdict `json:"then"`
}

// Quota is what a namespace or a queue has left of a resource.
type Quota struct {
	Of       facts.Ref `json:"of"` // a ResourceQuota or a BerthQueue
	Resource string    `json:"resource"`
	Hard     string    `json:"hard"`
	Used     string    `json:"used"`
	Asked    string    `json:"asked"` // by the manifests
	Left     string    `json:"left"`  // before them; below zero where more is used than allowed
}

// Worst is the verdict that an exit code goes by.
func (r *Report) Worst() Verdict {
	worst := Idle
	for i := range r.Workloads {
		worst = worse(worst, r.Workloads[i].Verdict)
	}
	return worst
}

// Unplanned says whether some workload could not be planned.
func (r *Report) Unplanned() bool {
	return slices.ContainsFunc(r.Workloads, func(w Workload) bool { return w.Verdict == Unknown })
}

func worse(a, b Verdict) Verdict {
	rank := map[Verdict]int{Idle: 0, Starts: 1, Unknown: 2, Waits: 3, Never: 4}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
