package cluster

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// Sink takes the changes that follow from what the watches say. The live scheduler's inbox is one, and a Model has
// another. It is called with the cache's lock held and must not call back.
type Sink interface {
	Put(...engine.Change)
	// Wake says that Settle has something to do, though no change was put.
	Wake()
}

// output numbers changes and hands them to the sink. All subjects of a Cache share one, so that changes leave in the
// order of their versions.
type output struct {
	sink Sink
	// pods numbers pods. It has seen pods alone, as their watch told of them, and so stays below every pod that is still to come.
	pods versions
	// derived numbers what is not a pod: gangs, queues, and whatever else follows from several objects.
	derived versions
	gone    int // objects that were taken away since the engine last forgot them
}

func (o *output) put(changes ...engine.Change) { o.sink.Put(changes...) }
func (o *output) wake()                        { o.sink.Wake() }

func (o *output) drop(kind engine.Kind, key string, version uint64) {
	o.gone++
	o.put(engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: version}})
}

// saw keeps the versions that are given above those seen.
func (o *output) saw(resource uint64) {
	o.pods.saw(resource)
	o.derived.saw(resource)
}

// VersionBits is the room, in bits, below each resource version for versions of our own: the engine's versions are
// resource versions shifted by it. Gangs, which several objects describe, need it, and pods whose volumes or controllers
// changed while they themselves did not.
const VersionBits = 20

// resourceVersion is the object's, 0 where it is no number.
func resourceVersion(o metav1.Object) uint64 { return ParseVersion(o.GetResourceVersion()) }

// ParseVersion reads a resource version, 0 where it is no number.
func ParseVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// versions gives versions that are newer than every object seen.
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
	return v.latest<<VersionBits + v.given
}
