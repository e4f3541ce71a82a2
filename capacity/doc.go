// Package capacity is the account of paid GPUs. Every GPU that is paid for has come a certain way on the chain
//
//	paid > launched > registered > ready > advertised > healthy > schedulable > allocated > busy
//
// and is counted in exactly one place on it: the last stage that it reached, with the cause for which it is not in the next,
// whose that is, since when, and what it costs. A Ledger holds this partition, keeps sums by account so that an update
// costs what changed, and integrates GPU-time and money in whole numbers.
//
// It has no clock, reads no objects and knows no cluster: package join below it makes the GPUs of what was read of one, and
// the caller passes the time in. The command line prints it; see docs/capacity.md.
package capacity
