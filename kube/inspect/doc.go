// Package inspect reads from a cluster what package diagnose needs, with the caller's own rights and nobody else's.
// It writes nothing and reads no Secret.
//
// What cannot be read is told as unseen, with the reason, and the rest is read all the same. Only a cluster that does
// not answer, or does not know the caller, is an error.
package inspect
