// Package census reports, for people and programs, the state between plans: how full and how fragmented the cluster is
// (report.go), what queues use, borrow, lend and request (queue.go), and what workloads hold (workload.go).
//
// It owns the values that it returns and keeps nothing: every count is made anew from one cluster.Model, which must be
// fresh (Model.Freshen), and leaves it as it is. A report costs a look at every node, the queues and workloads a look at
// every pod.
package census
