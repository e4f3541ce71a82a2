// Package answer serves what a scheduler knows and objects cannot say: place in line, cause, certificate, holders.
// It is a read-only API of its own group that the API server hands on to (register), so that any kubeconfig, kubectl
// and RBAC work; who calls directly shows a token. It knows who asks (identity), what they may read (review), and
// leaves out or counts the rest (hide). It decides nothing and keeps nothing: kube/scheduler gives it a Source while
// it leads, and the command line reads its values. It is no API server: no writes, no watches, no storage.
package answer
