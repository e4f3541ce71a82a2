// Package place finds nodes for the members of one gang within the topology that it asks for.
//
// Members of one class are placed by counting (uniform.go): which domains, by package divide, and then one best node after
// the other; where it finds no place there is none. Members that concern each other by a rule between pods are placed one after
// the other (coupled.go), which is complete for one such rule; several are for the search. Unlike members and subgroups are placed by a depth-first search
// (search.go), greedy first and then over all nodes, which is complete within its budget of steps. Members above the
// minimum are added one by one (grow.go).
//
// It keeps nothing: a Placer reads one index.Index and tries on its cluster.Model, through the journal, so that the caller
// rolls back what it does not want. What it must not decide itself, because it depends on queues and promises, it asks of
// the Limits that the caller gives. Counting costs a comparison per domain and per bucket; a search costs at most its
// budget of trial placements.
package place
