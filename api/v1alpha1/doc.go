// Package v1alpha1 is the objects users write, in the API group berth.dev. Today those are
// Pool: a kind of GPU node, how many there are of it, and how such a node comes up; and BerthQueue:
// what workloads are charged to, how much they may hold together, and who may use it; and Fault: what
// goes wrong on the fleet's nodes. A fleet
// file is a list of Pools, and the same objects live in the API server under the embedded
// CustomResourceDefinitions (CRDs).
//
// It holds the shape, the defaults and what can be checked by looking at one object alone.
// It does not know GPU models, read files or talk to a cluster: fleet/file does the first
// two, fleet makes nodes out of Pools, kube/scheduler charges workloads to BerthQueues. Readers of
// Pools that did not come through fleet/file call Default and then Validate before they use one.
//
// +kubebuilder:object:generate=true
// +groupName=berth.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object paths=.
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd:allowDangerousTypes=false paths=. output:crd:dir=.
