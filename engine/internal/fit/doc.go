// Package fit holds Kubernetes' rules for whether a pod may be on a node, one function per rule, on plain
// values: label requirements, taints and tolerations, host ports. It knows nothing of resources, classes
// or state. The engine's packages combine the rules, and package engine aliases the types for callers.
//
// It owns no state and derives nothing. A question costs what its rule is long: the terms of an affinity, the taints of a node,
// the ports of a pod.
package fit
