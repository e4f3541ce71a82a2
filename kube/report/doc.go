// Package report makes what Berth writes on objects, and reads it back: the reasons and sentences of conditions and
// events, and beside each sentence the same thing as data. Every sentence about a wait or an eviction is made here, from
// typed values, and nowhere read: who wants to know what was said reads the data.
//
// It is pure: it has no client. kube/scheduler sends what is made here; kube/answer words its answers with it; diagnose and
// a scheduler that starts anew read it.
//
// Data goes where its reader can trust it: into a condition, because the author of a pod may not write the pod's status. An
// event carries it as an annotation.
package report
