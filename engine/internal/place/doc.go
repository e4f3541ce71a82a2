// Package place finds nodes for the members of one gang within the topology that it asks for.
//
// There are three ways, from the cheapest to the dearest. A gang takes the first that is complete
// for it, so that a refusal is always a proof and never a guess:
//
//   - Like members are placed by counting (uniform.go): which domains, by package divide, and then
//     one best node after the other. If 8 pods are to share a rack, and the racks have room for 6, 9
//     and 12 of them, the second has it, and no node has been looked at yet. Where counting finds no
//     place there is none.
//   - Like members that concern each other by one rule between pods, such as one on each node, are
//     placed one after the other (coupled.go). What nodes admit does not add up for them, but any
//     order of placing them comes to the same end.
//   - Unlike members, subgroups, and several such rules are for a depth-first search (search.go):
//     greedy first, and then over all nodes. It is complete within its budget of steps, and says
//     when it ran out of it.
//
// Members above the minimum are added one by one (grow.go). They are never worth a search: what
// they get depends on what is over.
//
// The package keeps nothing: a Placer reads one index.Index and tries on its cluster.Model, through
// the journal, so that the caller rolls back what it does not want. What it must not decide itself,
// because it depends on queues and promises, it asks of the Limits that the caller gives. Counting
// costs a comparison per domain and per bucket; a search costs at most its budget of trial
// placements.
//
// All choices are deterministic. Domains and nodes are listed by name, the index breaks ties by
// name, and budgets are in steps and not in time.
package place
