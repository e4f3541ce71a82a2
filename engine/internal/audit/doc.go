// Package audit recounts the accounts of a state, some of them at a time, and reports where they are not what is kept.
//
// Accounts are kept by adding and subtracting. An audit counts them anew, from what was told. The code that does so is in the
// packages that own the accounts (their Checks) and shares nothing with the code that keeps them. Sums that run over many are
// checked step by step: a queue is compared with what its own pods hold and what the queues below it say they hold, which are
// looked at in their turn.
//
// A Round owns the list of places that are still to be looked at: the cluster, the account of workloads without a queue, each queue
// and each node, by name. The list is made when a round begins: what came since is in the next round. The cluster's place costs a
// look at every node and pod, the others what is in them.
package audit
