// Package emptied keeps a second model of a cluster, in which nothing runs that ends by itself, to find out whether a workload
// could ever start: a workload that does not fit there waits for nodes, and not for others to end.
//
// It owns that model. It is derived from the nodes, queues, bookings and pods of the first one, and Follow brings it up to date
// with each change that the first was told of. Pods that stay (Pod.Stays) are in it, and others only while one asks about their
// gang (Visit). Versions, memory and the audit are the first model's alone.
//
// Making it costs a look at every object, following a change what the first model pays for it, and a visit the members of the gang.
package emptied
