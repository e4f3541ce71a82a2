// Package history finds what a cluster still knows of how its objects were before: earlier revisions of workloads
// (ReplicaSets, ControllerRevisions) and what was last applied with kubectl. It compares them with the present, field by field.
// It says nothing of causes and tries nothing: diagnose makes edits of the differences and tries them.
package history
