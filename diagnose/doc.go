// Package diagnose says why work waits: layer, cause, owner, and a fix that was tried. It is a pure function of facts, which
// are Kubernetes' own objects as somebody read them at one moment, and of a Model, which is the engine with the
// scheduler's reading of the same objects. It has no client, no clock and no logger.
//
//	d := diagnose.New(facts, model)
//	answer := d.Why(target)
//
// A check (diagnose/check) finds one cause and proposes edits. This package divides the target into cases, runs the
// checks of l1 to l4 on each, decides with the model which findings bind, and tries the edits: an edit is printed as a fix
// only if the same checks, on the objects as they would be after it, find nothing that binds any more and the engine
// finds a place. README.md has the layout and how to add a cause. cli and kube/inspect call it.
package diagnose
