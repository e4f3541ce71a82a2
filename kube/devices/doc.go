// Package devices decides about the devices of resource claims (DRA) as Kubernetes' scheduler does, with its own library: which
// devices a selector selects, and whether claims can be met on a node. It knows nothing of diagnosis, which is given its
// functions by whoever reads a cluster or a bundle.
package devices
