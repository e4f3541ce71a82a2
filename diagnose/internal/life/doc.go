// Package life says, of one case, what has become of its pod beyond its place: who refused to create or start it, what its
// containers do, and whether it still makes progress. Checks of l2 to l4 share it; it names no cause.
package life
