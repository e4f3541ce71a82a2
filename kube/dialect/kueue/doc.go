// Package kueue is the dialect of Kueue's users (v1beta1 and v1beta2): ClusterQueues and Cohorts are queues, Jobs and pods that name a
// LocalQueue have terms, flavors say which nodes they may have, and Workloads tell how things are. Who lets a workload in is decided
// elsewhere (ADR 76). Diagnosis reads Kueue's own Workloads with it.
package kueue
