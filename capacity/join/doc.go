// Package join makes the GPUs of a ledger out of what was read of a cluster: reservations, pools, NodeClaims, nodes, slices, pods
// and, where somebody measured, the use of GPUs. GPUs are joined by identity: a reservation has machines, by their
// labels, their pool or, where it is open, their type and zone; a machine has a node, by its provider's id; a node has devices,
// by their ids where it tells them. Nothing is found by subtracting totals.
//
// Causes and owners are those of `berth why` (diagnose/check), so that one lost GPU has one name. It decides no fix: it names
// the one command that mends a plain case. The command line calls it; package capacity does the accounts.
package join
