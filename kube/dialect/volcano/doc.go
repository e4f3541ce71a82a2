// Package volcano has the kinds of Volcano, and reads and changes its Queues as values. New is the dialect of its users: queues, groups
// and keys for the scheduler.
package volcano
