// Package karpenter reads Karpenter's NodePools, node classes and NodeClaims, and the events by which it says why it makes
// no node for a pod. It says what nodes a pool may make, not whether a pod fits on one.
package karpenter
