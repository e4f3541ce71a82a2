// Package web serves the page: the fleet, the queues, why work waits and what it costs, in a browser (docs/page.md).
//
// One reader watches the cluster for all viewers. What it makes of it is a table of small JSON values by kind and name
// (table); each viewer is sent the whole table once and then what changed. A viewer that is behind what is kept of the
// changes is sent the whole table again: nothing is buffered for anybody.
//
// It answers no question itself. The command line gives it Questions, which are the functions behind `berth why`,
// `berth queue`, `berth check` and `berth capacity`. It changes nothing.
//
// A Server reads everything with the rights of one kubeconfig, and only who had the link may ask (guard). A Shared is for
// everybody whom an API server lets through: each viewer is sent what their own rights there let them see (ADR 105).
package web
