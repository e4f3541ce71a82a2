// Command berth-operators runs the controllers and webhooks of other projects in a cluster of `berth up --with NAME`: their own
// code, compiled from their modules, with the definitions, roles and webhook configurations that their modules carry.
//
// It has no rights of an administrator and installs nothing. `berth-operators manifests` prints what has to be installed, which
// package controlplane/operators of Berth's own module applies; `berth-operators run` runs the controllers as the user that it
// is given. It is a module of its own because these projects pin libraries that Berth does not need (ADR 74).
package main
