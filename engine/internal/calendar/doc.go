// Package calendar knows the times to come: how long work runs, when what runs ends, which room is promised or booked from
// which time on, whether work that starts now would be in the way of that, and when those that wait will start.
//
// A Calendar is of one cycle. It owns the reservations that the cycle gives out (reservation.go: promises and bookings), which
// workload is the blocked head of its queue (heads.go), and nothing between cycles: promises, bookings and run-time
// estimates are memory of the cluster.Model, and what a cycle decides about them is written to its draft.Draft.
//
// It derives, from the model, the time and the plan so far:
//   - the end of each running workload, from its terms, the run-time estimates and its start (runtime.go);
//     It holds while no member of a gang is given an allocation, loses it or is told to (Gang.Moves), and is worked out anew
//     where it is looked at from another promise;
//   - the releases, which are all those ends in order, with the places that are held for others. They hold for the state of
//     the model that they were listed in (Model.Standing), so that what is listed in a trial is not believed after it;
//   - for which classes no place is left beside what is promised. That stays true in a cycle, in which room only gets less.
//
// Check recounts all of these, and the audit of the engine checks the calendar of the last plan. What the calendar must not decide itself, because it depends on queues, topology and
// placement, it asks of the Questions that the cycle gives: there are five.
//
// Costs. The backfill test of a placed gang (Breaks) looks at the reservations, and at what runs on those of its nodes on
// which something is reserved. A promise (Promise) lists what runs, sorts it by end, and tries some 2 log n of n ends, each by
// lifting the pods that end until then and asking for a place; at most 200,000 pods are lifted for the promises of a cycle.
// A promise that was given before looks only at its own nodes. A forecast costs a promise for each workload in line, three
// times.
package calendar
