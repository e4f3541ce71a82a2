// Package order decides which pending workload is tried next in a cycle.
//
// A Line belongs to one model and is kept between cycles. It owns the pending workloads in the order
// in which they are tried (line.go), the same order per queue (queueorder.go), and what other
// packages remember of a pending workload (Memos). All of it is derived from the gangs: Follow gets
// the gangs whose tally changed, and memos are dropped when Gang.Tallies has changed. The per-queue
// orders hold for one Tree.Version, and are made anew when queues or many workloads changed; Check
// recounts them.
//
// A Selection lives for one cycle (selection.go). It goes down the tree of queues. At every level it
// chooses between the queues there by the best head that a queue has, then by how far the queue is
// from its fair share, then by what it used in the past, then by the head's age. It owns the queues'
// entries with the answers that workloads were given. An answer holds for all workloads that ask the
// same until Model.Standing changes. Which workload is owed a place, and which has waited too long,
// the Selection asks by way of its Questions.
//
// For example, queue a holds 4 GPUs more than its fair share and b holds 2 less. Each has pending
// workloads of one GPU and the same priority, none of which is owed a place. b is selected first,
// and again after each start, until it is above its share by as much as a. From then on they
// alternate, the older head first. A workload of a higher priority in either queue goes before all
// of these, and one that its queue's quota covers goes before that.
//
// Costs: a changed workload costs a binary search; a cycle costs the queues with something waiting,
// and each turn the depth of the tree: a start changes the standing of its queue and of those above
// it, and of the others below these only the one that would be next is judged anew.
package order
