// Package scheduler schedules a live cluster with the engine: watches become changes, a plan is made when
// something changed or at the time the last plan named, and the plan is carried out as bindings, conditions
// and events. It decides nothing itself; who runs it (cli) gives it a connection and a policy.
package scheduler
