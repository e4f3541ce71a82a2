// Package calendar predicts: how long work runs, when running work ends, which resources are promised or booked from
// which time on, whether work that starts now would delay a promise, and when pending workloads will start.
//
// A Calendar lives for one cycle. It owns the reservations that the cycle makes (reservation.go: promises and bookings), and
// which workload is the blocked head of its queue (heads.go). It owns nothing between cycles: promises, bookings and
// run-time estimates are memory of the cluster.Model, and what a cycle decides about them is written to its draft.Draft.
//
// It derives, from the model, the time and the plan so far:
//   - the end of each running workload, from its terms, the run-time estimates and its start (runtime.go).
//     It holds until a member of the gang gets an allocation, loses it or is told to end (Gang.Moves), and is worked out anew
//     for each promise that sees late work differently (lookFrom);
//   - the releases, which are all those ends in order, with the places that are held for others. They hold for the state of
//     the model that they were listed in (Model.Standing), so that a list made in a trial is not used after it;
//   - the classes for which no place is left beside what is promised. That stays true for the rest of a cycle, in which free
//     resources only shrink.
//
// Check recounts all of these, and the audit of the engine checks the calendar of the last plan. What depends on queues,
// topology and placement the calendar does not decide itself: it asks the cycle, by way of Questions.
//
// Costs. The backfill test of a placed gang (Breaks) looks at the reservations, and at what runs on those of its nodes on
// which something is reserved. A promise (Promise) lists what runs, sorts it by end, and tries some 2 log n of n ends, each by
// lifting the pods that end until then and asking for a place; at most 200,000 pods are lifted for the promises of a cycle.
// Where the sums of all that ends show that it fits at none (beyondAll), nothing is lifted, and it costs a look at each node. Where
// it was proved that not even empty nodes would hold it (Questions.CouldEver), nothing is listed, either.
// A promise that was given before looks only at its own nodes. A forecast costs a promise for each workload in line, three
// times.
package calendar
