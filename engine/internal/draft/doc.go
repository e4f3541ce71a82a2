// Package draft is the plan that a cycle is making: what it starts, evicts and promises so far, what it asks to be remembered,
// and when its answer may change.
//
// It owns the plan and the numbering of what the plan remembers. It derives nothing and nothing invalidates it: the packages
// that decide (calendar, preempt) and the cycle itself write to one Draft, in the order in which they decide, and that order
// is the order of the plan's Changes. Every call costs an append.
package draft
