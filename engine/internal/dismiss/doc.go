// Package dismiss ends work for the sake of nobody in particular: it ran for as long as it may, its queue is drained, its nodes are booked
// for others or not trusted, or its gang runs under its minimum for too long. Who is evicted for somebody who waits is for package
// preempt.
//
// It keeps nothing but what it is given for one cycle. A pod that is dismissed is marked in the model at once, so that what comes later in
// the cycle counts without it, and the eviction is in the plan. A pod whose queue is frozen stays, and one that was refused is asked
// again when its time is over. Each question costs what it looks at: pods that have a limit, queues that are drained, nodes of
// bookings and in quarantine, gangs that are short.
package dismiss
