// Package order decides who has the next turn in a cycle.
//
// A Line is of one model and is kept between cycles. It owns who waits, in the order of turns
// (line.go), that order by queue (queueorder.go), and what others remember of a workload in line
// (Memos). All of it is derived from the gangs: Follow is told the gangs whose tally changed, and
// memos are dropped when Gang.Tallies has moved on. The orders of queues are of one Tree.Version,
// and are made anew when queues changed or when many workloads did; Check recounts them.
//
// A Selection is of one cycle (selection.go). It goes down the tree of queues: at every level
// between the queues there, by the best head that a queue has, then by how far it is from its fair
// share, then by what it used in the past, then by the head's age. It owns the queues' entries with
// the answers that workloads were given, which hold for all who ask the same until the model's
// Standing changes. Who is owed a place, and who has waited for too long, it asks of its Questions.
//
// For example, queue a holds 4 GPUs more than its share and b holds 2 less, each with like
// workloads of one priority and one GPU in line, and none of them is owed a place. b goes first,
// and again after each start, until it is above its share by as much as a. From then on they take
// turns, the older head first. A workload of a higher priority in either goes before all of this,
// and one that its queue's quota covers before that.
//
// Costs: a changed workload costs a binary search; a cycle costs the queues with something waiting,
// and each turn the depth of the tree: a start changes the standing of its queue and of those above
// it, and of the others below these only the one that would be next is judged anew.
package order
