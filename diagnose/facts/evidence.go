package facts

import "time"

// Evidence is where something can be read.
type Evidence struct {
	Object string `json:"object"` // kind/name, or kind/namespace/name
	Field  string `json:"field"`  // a path in it: status.allocatable["nvidia.com/gpu"]
	Value  string `json:"value"`
}

// ETA is when the work may start by itself.
type ETA struct {
	Earliest time.Time `json:"earliest,omitzero"`
	Likely   time.Time `json:"likely,omitzero"`
	Because  string    `json:"because"`
}
