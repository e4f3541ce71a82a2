// Package place says, of one case, which nodes its pod could run on, what keeps it from the others (taints, labels,
// affinity, spread, volumes, devices, room, nodes that are broken), and which edits would give it a place. It asks the
// engine's own answer in the case first; rules that the engine does not know (between pods, volume limits, DRA) are
// worked out here. Checks of l1 to l3 share it; it names no cause.
package place
