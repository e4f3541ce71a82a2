// Package scheduler schedules a live cluster with the engine: watches become changes (watch, feed), a plan is made
// when something changed or at the time the last plan named (loop), and the plan is carried out as bindings (bind),
// conditions and events (say). It decides nothing about placement; what it knows beside the engine is what the
// API server's objects do not say: what is on its way, what was said already, and which node refused whom. Who
// runs it (cli) gives it a connection and a policy. A Model is the same reading of objects without a cluster.
package scheduler
