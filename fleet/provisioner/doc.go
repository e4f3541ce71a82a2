// Package provisioner plays another project's node provisioner in a cluster whose machines are simulated: Karpenter, or the cluster
// autoscaler. `berth up --provision` runs it, for people who test against either: it serves their kinds, and writes the objects,
// conditions, taints, finalizers and events that they write, in their order and words.
//
// It has no machines. Where the real one calls a cloud, it writes a Machine (api/v1alpha1), which the fleet answers with a machine or
// with the error that a Fault says. Pools with launch are what a NodePool's class or an autoscaler's node group is elsewhere.
//
// It keeps nothing that matters: at each look it reads what there is and takes the next step of each object. Only what the real ones
// forget at a restart too is in memory: which offerings were refused a moment ago, and which events were just written.
//
// Each step names the file that it follows. The releases are Karpenter v1.9.1 (sigs.k8s.io/karpenter) with github.com/awslabs/operatorpkg
// at 7a13865 for conditions, and cluster-autoscaler-1.36.1 of kubernetes/autoscaler.
package provisioner
