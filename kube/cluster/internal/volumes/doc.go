// Package volumes says where the claims of pods let them run, and which volumes the claims of a start get.
//
// It owns
//   - claims, volumes and classes, as last seen (volumes.go), and what CSI drivers say: room for new volumes, limits of nodes (attach.go);
//   - which pods use a claim: those that wait, and those on a node (users.go);
//   - what starts were promised and the API server does not show yet (reservation.go).
//
// It derives
//   - the nodes that a pod's claims allow, when asked (Reading.Allow), from its claims, their volumes and classes, and the nodes: as much as
//     the pod's claims times the nodes. Pods are to be asked about again when one of these changes: Waiting lists them;
//   - the volumes that a pod on a node counts for (Takes): a claim counts once on each node, for the first pod by key. Pods are to be asked
//     about again when a claim has another user: Recount lists them;
//   - what a pod would take from another that has a claim for one pod at a time (onepod.go).
//
// Objects come one by one, and nothing is worked out for them: what changed is marked, and Waiting and Recount turn the marks into pods once,
// before a plan. It knows of pods what their specs say, and of gangs nothing.
package volumes
