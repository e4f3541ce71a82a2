// Package cluster is the model of one cluster: the objects that it was given, and the accounts that follow from them by
// addition.
//
// It owns
//   - by key, every object that a Change carries, in its newest version, with the objects that are known to be deleted and
//     those that were rejected (apply.go, dump.go);
//   - the nodes, with what is allocated on them (node.go, pod.go);
//   - the gangs, with how much of each runs (gang.go, branch.go);
//   - the queues, with what each is charged (queue.go, wanted.go);
//   - the topology domains of nodes (topology.go);
//   - how many pods on each node match the selectors of rules between pods (rules.go);
//   - how many of the known pods request GPUs alike, and the GPUs of each model (mix.go).
//
// It decides nothing: none of its methods looks for a place or chooses a victim.
//
// Accounts are updated at once, by the few methods that allocate and release (occupy and vacate in pod.go, reserve for
// holds), so that a Model is consistent between any two calls; Check recounts all of them from the objects with code of its
// own. Three things are worked out when they are first needed, because many changes come together: the tree of queues
// (Rebuild), the tallies of gangs that changed and what those lack (Freshen), and the list Respecced of nodes whose specs
// changed, for packages that derive more from nodes.
//
// A package that keeps something derived from a Model keeps with it the position that it was derived at: Edits for
// everything; the numbers of Room, a Bucket and a node for free resources (room.go); Topology.Shape for domains;
// Tree.Version for queues; Asked.Edition and Supply.Edition for what is requested and what there is; Gang.Tallies for one
// gang.
//
// The journal (journal.go) makes trials cheap: Mark, try on the one Model, Rollback. Only what a plan may do while it is
// being made is journalled; Apply cannot be undone.
//
// Costs: applying or allocating a pod costs the depth of its queue and the number of its resources; applying a node costs its
// labels and a place among at most 256 neighbours; applying queues costs one recount of all accounts, however many queues
// change. Questions are lookups.
package cluster
