// Package oracle decides, slowly and obviously, what a correct answer of package engine is: whether a gang
// can start (CanStart), whether a plan is lawful (Valid), whether a certificate is true (Check). It shares
// the value types of package engine and not a line of its code, has no index, class or shortcut, and tries
// every assignment, so that it serves clusters of a handful of nodes and pods. Only tests call it.
//
// It keeps nothing between two questions: each is answered from a snapshot alone, at a cost that grows exponentially with its pods.
package oracle
