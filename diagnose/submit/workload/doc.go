// Package workload says which pods an object will have once it is submitted: what its controller makes of it, and what
// the API server fills in. Objects of kinds that it does not know are searched for pod templates.
//
// It plans nothing and reads nothing: diagnose/submit asks it about manifests before there is anything in a cluster.
package workload
