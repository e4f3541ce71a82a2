// Package kueue has the kinds and keys of Kueue (v1beta1 and v1beta2), reads its Workloads, and reads as queues what
// administrators write: ClusterQueues, Cohorts, LocalQueues, flavors and priority classes. What Kueue would decide is worked out
// elsewhere.
package kueue
