// Package index answers, for pods of one class, how many fit on each node and in each topology domain, which node is best,
// and, where too few fit, the certificate that proves it.
//
// It owns node kinds (kind.go: nodes that answer alike to every selector, affinity and toleration), pod classes (class.go:
// pods that fit alike) and, for each class in use, a count per node, per bucket of neighbouring nodes and per domain. All
// of it is derived from one cluster.Model and nothing else, and all of it follows one rule: a class remembers the position
// in the model's log of touched nodes that its counts are of, and looks again at the nodes touched since when it is next
// used. A node that moved to another domain, came or went changes the shape of the topology, by which a class sees which
// buckets to count anew. A kind is made anew when its node's spec changes (Refresh), and all of them when pods ask about a
// label that none asked about before. After a plan has been rolled back, Rewind takes the log back, and classes that the
// plan used look once more at the nodes that it touched. A bucket's state has a number, Bucket.Touched, which a rollback
// restores: counts and rows of a bucket hold while it has the number that they were made at, so that trials which came to
// nothing cost the classes that were not asked about in them nothing. Bodies of certificates hold at one position of the
// model: Edits, Standing and Topology.Shape. Check recounts.
//
// Costs: a question about a class that is up to date is a lookup (Fits) or a comparison per bucket (Best); bringing a class
// up to date costs one look (room.go) per node touched; a class that is new looks at every node. A certificate adds up rows
// that each bucket keeps while its number is the same (table.go). At most Config.Classes classes are kept; the quarter
// used longest ago goes first.
package index
