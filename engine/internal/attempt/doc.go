// Package attempt tries to start one gang in a cycle, and explains a refusal. It answers which gates are shut before any
// node is looked at (gates.go), in which ways the gang can be served, by GPU model and flavor (ways.go), where it is placed
// (place.go), or why there is no place (proof.go).
//
// Attempts live for one cycle. They own the proofs of the cycle, by question and by state of the model (Model.Standing), so
// that a question that many gangs ask is proved once; the list of GPU models that nodes have; and what is held for the gang
// that is being tried. A proof holds for the state that it was made in, and all proofs end with the cycle. The question of a
// gang (plain.go) is kept with its entry in the order until the gang, a rule between pods or an image changes.
//
// Attempts decide nothing about other workloads: the cycle decides which gang is tried next, which is evicted and which is
// promised a start. A place that is found is taken on the model, and the caller keeps it or rolls it back.
//
// Costs: gates cost the members of the gang and its queues; a place costs what package place costs, once for each way; a proof
// costs a look at the buckets, and at the nodes of those whose counts changed.
package attempt
