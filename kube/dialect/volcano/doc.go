// Package volcano has the kinds of Volcano, and reads and changes its Queues as values.
package volcano
