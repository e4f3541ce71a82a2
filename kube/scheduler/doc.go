// Package scheduler schedules a live cluster with the engine. Watches tell kube/cluster what there is; each cycle takes the
// changes that follow, asks the engine for a plan, and hands it on: to the binder, which has volumes made first; to the
// evictor, which holds the place before it ends a pod; and to the reporter, which writes why work waits. What becomes of a
// write comes back as a change.
//
// It owns the loop (loop.go), binding (bind.go, prepare.go), eviction and moves (evict.go, holds.go, surge.go), leadership
// and the fence around writes (lead.go, leadership.go), the gate that keeps one namespace's requests from holding up
// others' (gate.go, lines.go, retry.go), and what must outlast the process (memory.go, restore.go). It decides nothing:
// where work runs is the engine's, what objects mean is kube/cluster's, and what is said is kube/report's. cli calls it.
//
// A cycle never waits for the API server. Its cost is the engine's, plus the workloads whose cause or pods changed.
package scheduler
