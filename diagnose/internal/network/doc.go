// Package network reads NetworkPolicies: which of them close the way from one pod to another, to DNS, or out of the cluster. A policy is no
// proof that packets are lost, because a cluster whose network plugin knows no policies ignores it; callers ask where a program says that it
// gets no answer. Where objects of another project decide as well, nothing is said: they may open what a NetworkPolicy closes.
package network
