// Package clusterautoscaler reads what the cluster autoscaler writes: its status ConfigMap, of both formats, and the events
// by which it says what it does for a pod. It does not know pods or nodes of the cluster.
package clusterautoscaler
