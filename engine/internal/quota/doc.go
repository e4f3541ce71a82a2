// Package quota decides what the queue of a workload, and the queues above it, deny it: limits, limits of users, how many
// workloads may run, budgets, quota for work that cannot be evicted, and quota that other queues do not lend.
//
// It owns nothing and keeps nothing: a Limits reads the accounts of one cluster.Model as they are at that moment, also during
// a trial, and the time of one draft. A gang is checked twice. Before it is placed, it is checked with the least that its
// minimum can request (Gates): every place breaks what that breaks. With its members placed (Overdrawn), it is checked with
// what they are really charged. In between the accounts are the same, but for the gang's own charge.
//
// Costs: a question costs the depth of the queue times its limits; one about what is lent looks at the siblings of each
// queue above, and at the places that are held for others.
package quota
