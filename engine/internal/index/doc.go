// Package index answers, for pods of one class, how many fit on each node and in each topology domain, which node is best,
// and, where too few fit, the certificate that proves it.
//
// It owns node kinds (kind.go: nodes that give the same answer to every selector, affinity and toleration), pod classes
// (class.go: pods that fit alike) and, for each class in use, a count per node, per bucket of neighbouring nodes and per
// domain. All of it is derived from one cluster.Model and nothing else.
//
// One rule says when it holds. Every state of the free resources of a node, of a bucket and of all nodes has a number
// (cluster/room.go), which a rollback restores, and what was derived at a number holds while the number is the same. A class
// that is used compares the numbers of the buckets with those that its counts were made at, and looks again at the nodes
// whose number differs. So a trial that is rolled back costs nothing for classes that were not asked about in it. Other
// inputs have numbers of their own:
//   - A node that comes, goes or moves to another domain changes Topology.Shape, and a class counts the buckets that changed.
//   - A node's spec that excludes a class is kept with the count, while no node gets another spec (Index.respecs).
//   - A kind is made anew when its node's spec changes (Refresh), and all kinds are when pods ask about a label that none
//     asked about before.
//   - Scores under Packing priced hold for one mix of requests; with another mix all classes are dropped (price.go).
//   - Rows of certificates hold at the number of their bucket, bodies at that of all nodes and at Topology.Shape.
//
// Check recounts all of it.
//
// A class under rules between pods (rules.go) also keeps how many pods count in each domain of the node labels that its rules
// name, and looks again at the nodes of domains that open or close; wishes.go weighs preferred rules, told.go names them.
//
// What does not depend on one class is kept once for all of them: which kinds can be told apart by pods that ask about the
// same labels (group.go), what is free on the nodes of a bucket, by resource (view.go), and which buckets make up a domain
// (layout in table.go). Each type says what its values depend on.
//
// Costs: a question about a class that is up to date is a lookup (Fits) or a comparison per bucket (Best); bringing a class
// up to date costs a comparison per bucket and one look (room.go) per node whose room changed; a class that is new looks at
// every node that has the GPUs it asks for. A certificate adds up rows that each bucket keeps while its number is the same, and
// of the sums those where rows changed (table.go). At most Config.Classes classes are kept; the quarter used longest ago goes
// first.
package index
