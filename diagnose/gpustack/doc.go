// Package gpustack reads the software that makes a node offer its GPUs: the driver, the container toolkit, the device
// plugin or DRA driver, feature discovery and the MIG manager, whoever installed them. From the pods, labels and
// conditions in the facts it derives what each node should offer, what it does offer, and which part of the stack keeps
// the two apart; and it returns nodes as they would be once that is repaired. It names no cause and proposes no edit:
// diagnose/check/l2 does.
package gpustack
