// Package queue computes what queues are entitled to and what they have used: fair shares of a tree of queues (share.go),
// decayed usage, and budgets (usage.go).
//
// It keeps nothing. A Ledger reads one cluster.Model: quotas, limits and weights from the specs, what workloads hold and
// lack from the accounts, past usage from the Usages. FairShares writes its result to Queue.Fair, where it stays until the
// next cycle; everything else is returned. Accrue returns new Usages as Changes, so that past usage is memory like any
// other: applied, dumped and replayed.
//
// Costs: FairShares is linear in queues and resources, times the rounds of internal/share; Accrue in the pods that run.
package queue
