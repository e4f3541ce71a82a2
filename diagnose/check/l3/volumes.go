package l3

import "github.com/berth-dev/berth/engine/why"

// onlyVolumes says whether nothing but volumes and its own choice of a zone keeps the pod from a node.
func onlyVolumes(removed []why.Clause) bool {
	for _, r := range removed {
		if r.Kind != why.ByNodeSet {
			return false
		}
	}
	return true
}
