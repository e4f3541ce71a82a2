package cluster

import "time"

// Stay is what of a workload decides which promises and bookings it would be in the way of, from the moment on at which
// it starts. What has failed for one workload is told to others that ask the same, if they must leave at least as much.
//
// Two things only matter where nodes are to leave for good, and are zero elsewhere. Work that saves a checkpoint before
// that may be there, and so may work of which nobody knows how long it runs: there a stay without an end is not the
// longest of all, and says nothing about the others.
type Stay struct {
	For   time.Duration // the longest there is: unknown
	Saves time.Duration // from one checkpoint to the next; 0: never
	Open  bool          // its run time is unknown
}

// Covers says whether a workload that stays like this must leave at least as much to others as one that stays like o.
func (s Stay) Covers(o Stay) bool {
	//mutate: stay-where-nodes-leave -> s.For >= o.For
	return s.For >= o.For && s.Open == o.Open && (s.Saves == 0 || o.Saves > 0 && s.Saves >= o.Saves)
}
