// Package conformance holds Berth against the stock scheduler of the Kubernetes release that it is built with.
// Its test compares, for random pods and fleets, the nodes that Berth finds feasible with those that pass the
// stock scheduler's filters, and is part of `make test`. The program in upstream runs upstream's own integration
// tests against Berth, and is `make conformance`. Nothing here is part of Berth; docs/conformance.md says what is
// compared, and what is not yet.
package conformance
