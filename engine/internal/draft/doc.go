// Package draft is the plan that a cycle is making: what it starts, evicts and promises so far, what it asks to be remembered,
// and when its answer may change.
//
// It owns the plan, the numbering of what the plan remembers, and which Start is whose. It derives nothing and nothing invalidates
// it: the packages that decide (memory, calendar, preempt, dismiss) and the cycle itself write to one Draft, in the order in which
// they decide, and that order is the order of the plan's Changes. Every call costs an append; a gang that grows in the plan that
// starts it costs a sort of its pods.
package draft
