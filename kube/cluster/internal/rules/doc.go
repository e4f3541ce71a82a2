// Package rules is what rules between pods depend on beside the pods: which namespaces a selector selects, and which Services a pod is behind,
// from whose other pods it is spread.
//
// It owns
//   - the Services, by their selectors;
//   - the namespace selectors of the pods that there are, each once however many pods have it.
//
// It derives
//   - the namespaces of each selector, when the first pod has it, and then as namespaces change (Namespace): as much as there are
//     different selectors;
//   - what a pod is spread by where it says nothing itself (Around), when the pod is read: a lookup for each of its labels.
//
// A pod that has been read is to be read again when its selectors select others, or, while it waits and has no constraint of its own, when a
// Service of its namespace changes: Take lists these pods. It knows of pods what their specs say.
package rules
