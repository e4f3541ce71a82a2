// Package submit says what will become of manifests before they are submitted: of each workload whether it starts now,
// waits, or can never start, where and on what terms, for whom and until when, and what would change that. `berth check`
// prints it (docs/check.md).
//
// It adds the objects to the facts of a cluster, has their pods planned by the engine beside all that waits there, and has
// diagnose look at what the engine does not know. A workload can never start if it would not start on the same cluster
// without other work. It reads no files and asks no API server: kube/manifest and kube/dryrun do, and the CLI puts them
// together.
package submit
