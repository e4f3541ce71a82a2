// Package kueue has the kinds and keys of Kueue (v1beta1 and v1beta2), and reads its Workloads and ClusterQueues. What Kueue
// would decide is worked out elsewhere.
package kueue
