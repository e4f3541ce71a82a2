// Package doctor examines a cluster for `berth doctor`: is it fit for GPU work? It has a checklist, one file per item with a
// case beside it, and turns what was read of a cluster (diagnose/facts), what GPUs were measured to do (Samples) and what
// the engine counts (engine.Report) into a Checkup: per item a severity, and findings with evidence, owner and next step.
//
// It is about the cluster, not about one workload: package diagnose explains why a workload waits. It has no client and
// no clock, changes nothing, and claims nothing of what could not be read: such an item is unknown. The command line
// calls it.
package doctor
