package api

import (
	"fmt"
	"slices"
	"time"
)

// Config is the policy of a State. The zero value works.
type Config struct {
	Levels []Level `json:"levels,omitempty"` // of the topology, widest first; nodes are below the last
	GPU    string  `json:"gpu,omitempty"`    // the resource whose packing counts; "": nvidia.com/gpu
	// Packing is how a node is chosen among those that fit, after what the pod itself prefers.
	Packing Packing `json:"packing,omitempty"` // "": tight
	// Workload is what is expected to come, for Packing fgd. Nil: pods of one, two, four and eight GPUs
	// in equal parts.
	Workload []Shape `json:"workload,omitempty"`
	// Policy decides which workload goes first, and which may be evicted for which.
	Policy Policy `json:"policy,omitempty"` // "": default
	// Heads is how many blocked workloads, first in line, have promises that nothing may delay. 0: 4; -1: all
	// (conservative backfill).
	Heads int `json:"heads,omitempty"`
	// Overtake is how long a blocked workload that could run, and that no start is promised to, may be passed by what comes
	// after it in its queue, of its own priority or a lower one. 0: one hour; below 0: for ever.
	Overtake time.Duration `json:"overtake,omitempty"`
	// HalfLife is how fast what a queue used in the past stops counting against it; 0: it does not count at all.
	HalfLife time.Duration `json:"halfLife,omitempty"`
	// MinRun is how long a workload runs before it may be evicted for others, where its queue does not say.
	MinRun time.Duration `json:"minRun,omitempty"`
	// Restart is what starting again costs a workload that does not say; 0: one minute.
	Restart time.Duration `json:"restart,omitempty"`
	// Rates are how much one GPU of a model counts in queues' amounts; models that are not listed count 1.
	Rates []Rate `json:"rates,omitempty"`
	// GangGrace is how long a gang may run under its minimum before it is given up and starts anew; 0: five minutes.
	GangGrace time.Duration `json:"gangGrace,omitempty"`
	// Moves is how much running work may be moved to make places whole.
	Moves Moves `json:"moves,omitzero"`
	// AssumeFor is how long a planned placement is taken for real without being seen; 0: 30 s.
	AssumeFor time.Duration `json:"assumeFor,omitempty"`
	// SearchBudget is how many trial placements a gang of unlike members may cost in one cycle; 0: 20,000.
	SearchBudget int `json:"searchBudget,omitempty"`
	// Classes is how many pod classes are kept warm; 0: 512. It changes speed and nothing else.
	Classes int `json:"classes,omitempty"`
}

// Policy is a named set of rules.
type Policy string

const (
	// Default orders by priority, then by how far the queue is below its fair share, then by less past usage, then by age.
	// Quota is reclaimed from borrowers, and higher priorities preempt within their queue; equals are never evicted for each
	// other.
	Default Policy = "default"
	// TimeShare is Default, and a queue under its fair share also takes from one that is over its own.
	TimeShare Policy = "timeshare"
	// FIFO: age alone decides which workload goes first, and none is evicted for another.
	FIFO Policy = "fifo"
	// Strict is Default without backfill: behind a blocked workload nothing of its queue starts.
	Strict Policy = "strict"
)

// Rate is how much one GPU of a model counts.
type Rate struct {
	Model string `json:"model"`
	Units int64  `json:"units"`
}

// Moves bounds how much running work is moved so that places become whole.
type Moves struct {
	// Off says that nothing is moved for a gang that waits.
	Off bool `json:"off,omitempty"`
	// Background is the most GPU-seconds of work that may be lost in an hour to moves that no gang waits for; 0: none.
	Background int64 `json:"background,omitempty"`
}

// Level is one level of the topology: nodes with the same values of its label and of all wider levels'
// labels are one domain. A node without the label is in no domain of the level.
type Level struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

// NodeLevel is the name of the level whose domains are single nodes.
const NodeLevel = "node"

// Packing is a policy for choosing among nodes that fit.
type Packing string

const (
	Tight  Packing = "tight" // where least is left free: keeps large places whole
	Loose  Packing = "loose" // where most is left free
	LeastF Packing = "fgd"   // where the expected fragmentation grows least (Fragmentation Gradient Descent)
	// Priced: where it costs later requests least, by the mix of those that are known (RequestMix).
	Priced Packing = "priced"
)

// known says whether the packing is one of those, or "", which leaves it to others.
func (p Packing) known() bool {
	return p == "" || p == Tight || p == Loose || p == LeastF || p == Priced
}

func (p Packing) unknown() string {
	return fmt.Sprintf("packing: unknown packing %q: want tight, loose, fgd or priced", string(p))
}

// Shape is a kind of pod to expect and how often, for the expected fragmentation.
type Shape struct {
	Requests Resources `json:"requests"`
	Weight   int64     `json:"weight"`
}

// Normal returns the config with defaults filled in and with what makes no sense left out and named.
func (c Config) Normal() (Config, []Rejected) {
	var bad []Rejected
	reject := func(field, format string, args ...any) {
		bad = append(bad, Rejected{Ref: Ref{Kind: KindConfig, Key: field}, Reason: fmt.Sprintf(format, args...)})
	}
	if c.GPU == "" {
		c.GPU = "nvidia.com/gpu"
	}
	var levels []Level
	for _, l := range c.Levels {
		switch {
		case l.Name == "" || l.Label == "":
			reject("levels", "level %q has no name or no label", l.Name)
		case l.Name == NodeLevel || slices.ContainsFunc(levels, func(o Level) bool { return o.Name == l.Name || o.Label == l.Label }):
			reject("levels", "level %q is named twice", l.Name)
		default:
			levels = append(levels, l)
		}
	}
	c.Levels = levels
	switch c.Packing {
	case Tight, Loose, LeastF, Priced:
	case "":
		c.Packing = Tight
	default:
		reject("packing", "unknown packing %q: want tight, loose, fgd or priced", c.Packing)
		c.Packing = Tight
	}
	for _, s := range c.Workload {
		if reason := s.Requests.Check(); reason != "" || s.Weight < 0 || s.Weight > maxWeight {
			reject("workload", "a shape of weight %d: %s", s.Weight, reason)
			c.Workload = nil
			break
		}
	}
	if len(c.Workload) == 0 {
		for _, n := range []int64{1, 2, 4, 8} {
			c.Workload = append(c.Workload, Shape{Requests: Resources{{Resource: c.GPU, Value: n}}, Weight: 1})
		}
	}
	switch c.Policy {
	case Default, TimeShare, FIFO, Strict:
	case "":
		c.Policy = Default
	default:
		reject("policy", "unknown policy %q: want default, timeshare, fifo or strict", c.Policy)
		c.Policy = Default
	}
	if c.Heads == 0 {
		c.Heads = 4
	}
	if c.Overtake == 0 {
		c.Overtake = time.Hour
	}
	if c.GangGrace <= 0 {
		c.GangGrace = 5 * time.Minute
	}
	if c.Restart <= 0 {
		c.Restart = time.Minute
	}
	c.HalfLife, c.MinRun = max(0, c.HalfLife), max(0, c.MinRun)
	for i, r := range c.Rates {
		if r.Model == "" || r.Units < 1 || r.Units > MaxRate || slices.ContainsFunc(c.Rates[:i], func(o Rate) bool { return o.Model == r.Model }) {
			reject("rates", "model %q counts %d: want each model once, with 1 to %d", r.Model, r.Units, MaxRate)
			c.Rates = nil
			break
		}
	}
	if c.AssumeFor <= 0 {
		c.AssumeFor = 30 * time.Second
	}
	if c.SearchBudget <= 0 {
		c.SearchBudget = 20_000
	}
	if c.Classes <= 0 {
		c.Classes = 512
	}
	return c, bad
}

// maxWeight bounds a shape's weight so that expected fragmentation stays a small number.
const maxWeight = 1 << 16

// MaxRate bounds what one GPU counts.
const MaxRate = 1000
