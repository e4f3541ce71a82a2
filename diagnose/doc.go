// Package diagnose says why work waits: layer, cause, owner, and a fix that was tried. It is a pure function of
// Facts, which are Kubernetes' own objects as somebody read them at one moment, and of a Model, which is the engine
// with the scheduler's reading of the same objects. It has no client, no clock and no logger.
//
//	d := diagnose.New(facts, model)
//	answer := d.Why(target)
//
// A Check finds one cause. Each is a file of its own, named by its layer (l3_quota_exceeded.go), and
// a line in list.go, which alone names it. A check returns Findings: a sentence,
// the objects that show it, and Edits, each of which would take the blocker away. Diagnosis then decides, with the
// model, which findings bind, and tries the edits: an edit is printed as a fix only if the same checks, on the
// objects as they would be after it, find nothing that binds any more and the engine finds a place.
package diagnose
