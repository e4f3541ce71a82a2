package api

import "fmt"

// Discrepancy is an account that says something else than a recount: an alarm, for there is an error in the engine.
type Discrepancy struct {
	Kind     string `json:"kind"`               // "cluster", "queue", "node" or "pod"
	Key      string `json:"key,omitempty"`      // of the queue, node or pod
	Account  string `json:"account"`            // which of its accounts
	Resource string `json:"resource,omitempty"` // or whose part of it: a user, a pod, a device
	Kept     int64  `json:"kept"`
	Counted  int64  `json:"counted"`
}

// String says it in one line.
func (d Discrepancy) String() string {
	of := d.Kind
	if d.Key != "" {
		of += " " + d.Key
	}
	what := d.Account
	if d.Resource != "" {
		what += " of " + d.Resource
	}
	return fmt.Sprintf("%s: %s is kept as %d and counted as %d", of, what, d.Kept, d.Counted)
}
