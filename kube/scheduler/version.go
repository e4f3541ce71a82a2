package scheduler

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The engine's versions are resource versions with room below each for versions of our own: of gangs, which
// several objects describe, and of pods whose volumes or controllers changed while they themselves did not.
const ownVersions = 20 // bits

// resourceVersion is the object's, 0 where it is no number.
func resourceVersion(o metav1.Object) uint64 { return parseVersion(o.GetResourceVersion()) }

func parseVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// versions gives versions that are newer than every object seen. Those of pods see pods alone, and so stay older
// than every pod still to come.
type versions struct {
	latest uint64 // highest resource version seen, or known to be past
	given  uint64 // above latest
}

func (v *versions) saw(resource uint64) {
	if resource > v.latest {
		v.latest, v.given = resource, 0
	}
}

func (v *versions) next() uint64 {
	v.given++
	return v.latest<<ownVersions + v.given
}
