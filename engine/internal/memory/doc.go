// Package memory ends what earlier plans had remembered, once its time is over: assumptions, refusals, holds and evictions.
// Package calendar does so with promises.
//
// It owns the rules of when such memory counts no more, and keeps nothing. What is over stops counting on the model at once, so
// that all later steps of the cycle see the cluster without it, and the plan forgets it, so that it is gone for good when the plan
// is carried out. What is not over yet wakes the plan when it will be.
//
// Costs: assumptions are found by the time at which they end, so that only those that are over cost something; refusals, holds and
// evictions, which are few, are looked at one by one.
package memory
