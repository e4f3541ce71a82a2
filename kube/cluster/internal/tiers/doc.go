// Package tiers finds levels of the scheduler's topology for the tiers that objects of dialects describe (dialect.Surveyor): HyperNodes, or a
// Topology with node labels that the scheduler was not told of. The engine's levels are fixed when it starts, so each tier is stood for by
// one of them:
//
//   - the level whose label divides the nodes in the same way, where there is one;
//   - else a level that no node has a label of, where the tier's domains and those of other levels are within each other: nodes are
//     given to the engine with one.
//
// A tier keeps its place in the order of levels: what is within the narrower is within the wider. One for which no level is left stands
// for itself, and a pod that requires it waits, which is told.
//
// It owns nothing but the levels that it was made with. It derives, when it is asked to (Survey), the level of each tier and the labels that
// nodes are given with from the topologies and the nodes' labels. The owner of these says when they have changed (Again).
package tiers
