// Package facts holds what could be read of a cluster at one moment: Kubernetes' own objects as values, indexed. It
// answers questions about one object or its relatives (who owns it, which pods it has and still lacks, which events are
// about it, which gang it belongs to) and it knows what was not readable. It draws no conclusions: causes are found in
// diagnose/check, and what an edit would do is worked out in diagnose/edit.
//
// Facts never change once they are gathered. After returns other facts, which share what did not change. Data derived
// from facts is kept with them by Derive, so nothing can make it stale.
//
// kube/inspect gathers facts from a cluster or a bundle; package diagnose and everything below it reads them.
package facts
