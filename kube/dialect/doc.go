// Package dialect reads objects whose Go types belong to other projects: a JSON tree by path, and the conditions of
// an object's status. What is absent, or of another shape, reads as empty. The packages below it know one project each
// (Kueue, KAI, Volcano, Karpenter, cluster-autoscaler): its kinds and keys, and what its objects and messages say. They
// are pure functions of objects: they hold no client and no cluster. Diagnosis reads them; a scheduler may.
package dialect
