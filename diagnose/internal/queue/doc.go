// Package queue says, of one case, where its pod stands in the queues of Berth, Kueue, KAI and Volcano: which queue it
// names, what that may use and does use, and which edits would let it in. The objects of other projects are read by
// kube/dialect. Checks of l1 to l3 share it; it names no cause.
package queue
