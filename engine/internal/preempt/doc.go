// Package preempt decides which workloads are evicted for which: which running workloads the rules allow to be evicted for a pending one,
// which set of them is evicted, what that costs, and which of them are moved instead.
//
// It receives no events and has no memory of its own: evictions and holds are Changes of the plan, which come back to the
// model when the plan is carried out. Package engine calls it when a gang has found no place (MakeRoom, MoveFor), at the end
// of a cycle (Tidy), and in an audit (Check).
//
// # What it owns
//
//   - Candidates: for each queue, its running workloads in the order in which they keep their allocations, and what of them
//     is evicted together. Kept from cycle to cycle.
//   - Cycle: what one scheduling cycle knows of pods on their way out, of disruption budgets, and of claims that failed. Made
//     anew for each cycle.
//   - claim: one pending gang that looks for victims. Made anew for each.
//
// # What is derived, and what invalidates it
//
// A list of candidates follows from the pods of a queue, their gangs and terms. The model notes in Queue.Changes which
// workloads of the queue have come, changed or gone, and the list is brought up to date when it is next asked for; it is made
// anew when the tree of queues changes (Tree.Version). The list of a queue with those below it, and the cut of it that quota
// does not cover, follow from the lists, and are numbered with the edition of the lists that they were made of; a cut also
// states the parts of the queue, the topology and the dimensions that it was made for, and is not kept while places are
// held for workloads of the queue. Check makes all of them anew and compares.
//
// Memos of failed claims hold for one state of the model (Model.Standing).
//
// # Which victims
//
// search.go explains the search. In short: a first set is found greedily, a branch and bound looks for a cheaper one, the
// bound comes from counting resources node by node, and whether a set really makes room is asked of the model, with the
// victims taken off their nodes. The search ends at a budget; the best set so far stands then.
//
// # What a question costs
//
// Most claims that cannot succeed are refused by sums: one addition per queue and domain (bound.go). Otherwise finding the
// units that may be evicted costs a look at each candidate of the queues concerned, and the search costs at most its budget:
// 20,000 steps on counts and 400 trials on the model. Claims of few units share a budget of 4,000 trials in a cycle, and each
// has 400 at least.
//
// What other packages decide it asks by way of functions that it is given: Placing, from the cycle that places gangs, and
// Promises, from the calendar.
package preempt
