// Package attempt is what one gang is given in a cycle, or told: the gates that are shut before any node is looked at (gates.go), the
// ways to serve it, by GPU model and flavor (ways.go), its place (place.go), and the proof that it has none (proof.go).
//
// Attempts are of one cycle. They own the proofs of the cycle, by question and standing of the model, so that a question that many
// ask is proved once; the list of GPU models that nodes have; and what is held for the gang whose turn it is. A proof is good for
// the standing that it was made at, and all of it ends with the cycle. What a gang's question is (plain.go) is kept with its entry
// in line until the gang, a rule between pods or an image changes.
//
// They decide nothing about others: who has a turn, who is evicted and who is promised a start is the cycle's. A place that is found
// is taken on the model, and whoever asked rolls it back or keeps it.
//
// Costs: gates cost the members of the gang and its queues; a place costs what package place costs, once for each way; a proof costs
// a look at the buckets, and the nodes of those whose counts changed.
package attempt
