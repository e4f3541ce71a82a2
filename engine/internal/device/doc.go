// Package device decides which GPUs of one node a pod gets, so that pods that need GPUs of one NVLink
// clique or one NUMA node find them, and large cliques stay whole for later pods. It knows nothing of
// other nodes or other resources, nor which pod holds which device. Packages index and cluster ask it
// how many pods fit, and then for the devices of one pod at a time.
//
// It owns no state. Offers (offers.go) is the one value that is kept: the devices of one node that claims are met with, and who
// holds them. It follows from the node as told and from the pods on it; cluster changes it by one holder at a time, which costs
// what that device draws, and makes it anew when the node is told anew. Cards (parts.go) are likewise cluster's.
//
// To choose whole GPUs costs a look at each device of the node. Devices for claims are searched for (search.go), and alike devices are
// one in that search.
package device
