// Package dismiss evicts work for reasons other than a pending workload: it has reached its maximum run time, its queue is
// drained, its nodes are booked for others or quarantined, or its gang has run below its minimum for too long. Package preempt
// decides about evictions for pending workloads.
//
// It keeps nothing but what it is given for one cycle. A pod that is dismissed is marked in the model at once, so that later
// steps of the cycle count without it, and the eviction is added to the plan. A pod whose queue is frozen stays, and an
// eviction that was refused is tried again once the refusal expires. Each question costs what it looks at: pods with a time
// limit, drained queues, nodes that are booked or quarantined, gangs below their minimum.
package dismiss
