// Package convert turns Kubernetes objects into the engine's values, and the engine's placements into
// Bindings. It is pure functions on objects that somebody else watched: it has no client and no cache, keeps
// nothing, and decides nothing about placement. Where upstream has a definition (what a pod requests, which
// volume fits which node) it calls upstream's helpers. The live scheduler calls it on every change; tools that
// read clusters or bundles call it too.
//
// Three rules hold throughout. What is bound takes its room whatever its object looks like: a bound pod never
// comes out as a value that the engine rejects. What a waiting pod must have and the engine cannot decide comes
// out as a Feature, so that the pod waits by name. What it only wishes for and does not get is listed by
// Unheeded. Results share labels and slices with the objects they were made from; nobody may write to either.
package convert
