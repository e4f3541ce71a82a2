// Package check says what a check is. A Check finds one cause in a Case: one pod of the target, with the facts and what the
// engine says of its place. It returns Findings: a sentence, the objects that show it, and edits, each of which would take
// the blocker away. The checks themselves are in l1 to l4, by the system that has to act; package diagnose runs them.
package check
