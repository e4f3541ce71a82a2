// Package maintenance plans when nodes are drained within a window, so that the least work is lost.
//
// A workload is stopped when the first of its nodes is drained, as a whole and once: it begins anew on nodes that stay. What it loses
// is the time since its last checkpoint, or since its start, and what a new start costs, on all of its GPUs. One that is over
// before loses nothing. So the moments that matter are the ends of workloads and their checkpoints.
//
// Cost: workloads that share nodes are planned together. Where all combinations of moments are few (maxTried) they are all tried;
// otherwise the best moment for all nodes at once is improved node by node until nothing helps, which is not always the best.
package maintenance
