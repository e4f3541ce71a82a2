package record

import (
	"time"

	"github.com/berth-dev/berth/engine"
)

// Format is the version of the lines.
//
//	1  2026-11-15  first
//	2  2026-11-16  a cycle has the checksum of all lines up to it, and a file that was closed that of all its bytes
//	3  2026-11-17  a cycle has the evictions of its plan
const Format = 3

// line is one line of a segment. Exactly one field is set. The order of lines is: the head, what is live, and
// then for each cycle the changes that came before it and its mark.
type line struct {
	Segment *head          `json:"segment,omitempty"`
	Live    *engine.Change `json:"live,omitempty"`
	Change  *engine.Change `json:"change,omitempty"`
	Cycle   *mark          `json:"cycle,omitempty"`
}

// markPrefix begins the lines that are marks, and no other.
const markPrefix = `{"cycle":`

// head is the first line of a segment.
type head struct {
	Format  int           `json:"format"`
	Values  int           `json:"values"` // engine.SnapshotVersion: of the values in changes
	Berth   string        `json:"berth"`  // version of the program that decided
	Start   time.Time     `json:"start"`  // time of the first cycle; later ones are not before it
	Because Because       `json:"because"`
	Latest  uint64        `json:"latest,omitempty"` // highest version of any change before; see engine.Snapshot
	Config  engine.Config `json:"config"`
}

// Because is why a segment was begun.
type Because string

const (
	Started  Because = "start" // of the scheduler: nothing is known yet
	Full     Because = "size"
	Aged     Because = "age"
	TimeBack Because = "clock" // the clock went back: within a segment it does not
	AfterGap Because = "gap"   // cycles before it could not be written
)

// mark ends a cycle: a plan was made of all lines before it, and its changes were applied.
type mark struct {
	Now     time.Time `json:"now"`
	Digest  digest    `json:"digest"`
	Starts  int       `json:"starts,omitempty"`  // gangs
	Waiting int       `json:"waiting,omitempty"` // gangs
	// Evictions are those of the plan: who reads facts alone could not know them. Before format 3 there are none.
	Evictions []engine.Eviction `json:"evictions,omitempty"`
	// Sum is the CRC-32C of all lines of the segment up to this one, which counts without it. "": format 1.
	Sum string `json:"sum,omitempty"`
}
