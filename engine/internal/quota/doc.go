// Package quota tells what the queue of a workload, and the queues above it, do not let it have: limits, limits of users,
// how many may run, budgets, quota for work that cannot be evicted, and what other queues do not lend.
//
// It owns nothing and keeps nothing: a Limits reads the accounts of one cluster.Model as they are at that moment, also while
// somebody tries something out on it, and the time of one draft. A gang asks twice. Before it is placed, with the least that
// its minimum can ask for (Gates): what that breaks, every place breaks. And with members placed (Overdrawn), when what they
// are charged is known. In between the accounts are the same, but for the gang's own charge.
//
// Costs: a question costs the depth of the queue times its limits; one about what is lent looks at the siblings of each
// queue above, and at the places that are held for others.
package quota
