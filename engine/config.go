package engine

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
	// AssumeFor is how long a planned placement is taken for real without being seen; 0: 30 s.
	AssumeFor time.Duration `json:"assumeFor,omitempty"`
	// SearchBudget is how many trial placements a gang of unlike members may cost in one cycle; 0: 20,000.
	SearchBudget int `json:"searchBudget,omitempty"`
	// Classes is how many pod classes are kept warm; 0: 512. It changes speed and nothing else.
	Classes int `json:"classes,omitempty"`
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
)

// Shape is a kind of pod to expect and how often, for the expected fragmentation.
type Shape struct {
	Requests Resources `json:"requests"`
	Weight   int64     `json:"weight"`
}

// normal returns the config with defaults filled in and with what makes no sense left out and named.
func (c Config) normal() (Config, []Rejected) {
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
	case Tight, Loose, LeastF:
	case "":
		c.Packing = Tight
	default:
		reject("packing", "unknown packing %q: want tight, loose or fgd", c.Packing)
		c.Packing = Tight
	}
	for _, s := range c.Workload {
		if reason := s.Requests.check(); reason != "" || s.Weight < 0 || s.Weight > maxWeight {
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
