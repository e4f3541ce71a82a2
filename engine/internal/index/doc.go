// Package index answers, for pods of one class, how many fit on each node and in each topology domain, which node is best,
// and, where too few fit, the certificate that proves it.
//
// It owns node kinds (kind.go: nodes that answer alike to every selector, affinity and toleration), pod classes (class.go:
// pods that fit alike) and, for each class in use, a count per node, per bucket of neighbouring nodes and per domain. All
// of it is derived from one cluster.Model and nothing else, and all of it follows one rule: the room of a node, of a bucket and
// of all nodes has a number in every state (cluster/room.go), which a rollback restores, and what was derived at a number
// holds while the number is the same. A class that is used compares the numbers of the buckets with those that its counts
// are of, and looks again at the nodes of which the number differs; so trials that came to nothing cost the classes that were
// not asked about in them nothing. A node that moved to another domain, came or went changes the shape of the topology, by
// which a class sees which buckets to count anew. Scores under Packing priced hold at the prices of one mix of requests; where
// another is told, all classes are dropped (price.go). That a node's spec excludes it is kept with its count, and holds while no node
// is told another spec (Index.respecs). A kind is made anew when its node's spec changes (Refresh), and all of them
// when pods ask about a label that none asked about before. Rows of certificates hold at the number of their bucket, bodies
// at that of all nodes and at Topology.Shape. Check recounts.
//
// A class under rules between pods (rules.go) also keeps how many pods count in each domain of the node labels that its rules name, and
// looks again at the nodes of the domains that open or close; wishes.go weighs those that are wishes, told.go names them.
//
// What does not depend on one class is kept once for all of them: which kinds pods that ask about the same labels can tell
// apart (group.go), what is free on the nodes of a bucket, resource by resource (view.go), and which buckets make up a domain
// (layout in table.go). Each says at its type what it holds at.
//
// Costs: a question about a class that is up to date is a lookup (Fits) or a comparison per bucket (Best); bringing a class
// up to date costs a comparison per bucket and one look (room.go) per node whose room changed; a class that is new looks at
// every node that has the GPUs it asks for. A certificate adds up rows that each bucket keeps while its number is the same, and
// of the sums those where rows changed (table.go). At most Config.Classes classes are kept; the quarter used longest ago goes
// first.
package index
