// Package fleet is the simulated fleet of one cluster: it makes Nodes out of the Pools in the
// API server, keeps them alive with leases and status, and wires the parts that run their pods
// (fleet/kubelet), hold their devices (fleet/device), make their volumes (fleet/storage) and answer exec and
// logs (fleet/stream).
//
// It is a client of the API server like any kubelet: it holds no state that a restart could not
// rebuild from Nodes and Pools, and it never decides where a pod goes. What a node advertises
// follows only from the GPU-stack pods that stand on it. The command line calls Install once per
// start with administrator rights, then Run with the fleet's own narrow ones; Apply changes the
// Pools of a running fleet.
package fleet
