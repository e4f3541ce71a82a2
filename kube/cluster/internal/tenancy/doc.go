// Package tenancy decides which queue pays for a workload, and which namespaces may use a queue.
//
// It owns
//   - queues as last seen: BerthQueues, and objects of dialects that say one (queue.go);
//   - of namespaces their labels, the queue that they name, and what is written on them about queues (tenancy.go, access.go);
//   - whether evictions are frozen in the whole cluster.
//
// It derives
//   - the namespaces that may use a queue, when the queue or a namespace's labels change: a match of selectors for each pair;
//   - what the engine is to know of queues (Take), once before a plan: the queues that changed, and one that pays where no queue is named,
//     as long as there is no object of its name;
//   - which namespaces' workloads may have another payer since (Changes.Moved). Which workloads these are is the caller's to find: it
//     knows no pods.
//
// Versions of queues are always of the feed's own making: what a queue is to the engine also follows from namespaces, whose resource versions
// say nothing about the queue's. The feed hears of a queue from one watch alone, in order, and a version of its own is newer than all that was
// given before. So values are taken without versions, and numbered in the order in which they are.
package tenancy
