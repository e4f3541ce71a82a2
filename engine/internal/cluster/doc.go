// Package cluster is the model of one cluster: what was told, and the accounts that follow from it by adding up.
//
// It owns, by key, every object that a Change carries, in its newest version, with what is known to be gone and what was
// rejected (apply.go, dump.go); the nodes with what is allocated on them (node.go, pod.go); the gangs with how much of
// each runs (gang.go, branch.go); the queues with what each is charged (queue.go, wanted.go); and which topology domains
// nodes are in (topology.go); and how many pods on each node the selectors of rules between pods match (rules.go); and how many of the
// pods that are known ask for GPUs alike, with the GPUs of each model (mix.go). It decides nothing: no method of it looks for a place or chooses a victim.
//
// Accounts are kept at once, by the few methods that allocate and release (occupy and vacate in pod.go, reserve for
// holds), so a Model is right between any two calls; Check recounts all of them from what was told with code of its own.
// Three things are worked out later, when they are first needed, because many changes come together: the tree of queues
// (Rebuild), the tallies of gangs that changed and what those lack (Freshen), and, for who derives more from nodes, the list
// Respecced of those whose specs changed. Whoever keeps something derived from a Model keeps with it the
// position that it was derived at: Edits for everything, the numbers of Room, a Bucket and a node for room on nodes (room.go), Topology.Shape for domains,
// Tree.Version for queues, Asked.Edition and Supply.Edition for what is asked for and what there is, Gang.Tallies for one gang.
//
// The journal (journal.go) makes trials cheap: Mark, try on the one Model, Rollback. Only what a plan may do in the course
// of being made is journalled; Apply is for good.
//
// Costs: applying a pod or allocating it costs the depth of its queue and the number of its resources; a node, its labels
// and a place among at most 256 neighbours; a queue, a recount of all accounts, once for any number of queues. Questions
// are lookups.
package cluster
