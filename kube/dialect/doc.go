// Package dialect reads objects whose Go types belong to other projects. The packages below it know one project each
// (Kueue, KAI, Volcano, coscheduling, Karpenter, cluster-autoscaler, HAMi): its kinds and keys, and what its objects and
// messages say. They are pure functions of objects: they hold no client and no cluster.
//
// Of a project whose users are to find Berth in the place of their scheduler, the package has a Dialect: foreign objects in;
// queues, keys of Berth's own, and a list of what was not understood out. kube/cluster puts them together, kube/scheduler
// watches and writes. Diagnosis reads the same packages, with the readers of JSON trees here: what is absent, or of another
// shape, reads as empty.
package dialect
