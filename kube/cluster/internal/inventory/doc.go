// Package inventory is which devices the drivers of a cluster publish, on which nodes they are, and which of them claims mean.
//
// It owns
//   - ResourceSlices by pool, the taint rules on their devices, and which nodes list GPUs as broken (inventory.go);
//   - what claims ask about: selections of devices, attributes that devices are to agree in, attributes that requests derive, and
//     resources that are had from devices (asked.go).
//
// It derives
//   - the devices of each node, and those that several nodes reach (far.go), when a slice, a rule or a node's list changes: what
//     changed is read again, at a cost of the devices of that node;
//   - for each selection, which kinds of devices it means (meeting), when first asked, until any device is read again;
//   - what a node offers to the engine (node.go), each time that it is asked: selections times devices of the node.
//
// It knows no pods and no claims' holders. Who depends on what changed is the caller's to find: Take says what did.
package inventory
