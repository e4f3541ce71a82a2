// Package supply says, of one case, who could make a node for its pod (Karpenter's pools, cluster-autoscaler's groups), what
// they say of it, and what the cloud answered them. The objects and messages of those projects are read by kube/dialect.
// Checks of l1 to l3 share it; it names no cause.
package supply
