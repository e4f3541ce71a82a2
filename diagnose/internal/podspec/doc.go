// Package podspec reads one pod's specification: what it requests, and whether its tolerations, node selector and
// affinity let it run on a node. Resources are in the engine's units: milli-CPU, bytes, or a count. Rules between pods,
// and what is free, are not here.
package podspec
