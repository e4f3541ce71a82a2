package why

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"strings"
)

// What people are told of a workload. Its key is namespace/pod, or namespace/kind/name; people know the kind and the
// name. A person who may read one namespace must not learn what is in another: a workload of another namespace is told by its
// queue.

// podGroup and compositePodGroup are the kinds, in keys, of upstream's PodGroups and CompositePodGroups.
const (
	podGroup          = "podgroup"
	compositePodGroup = "compositepodgroup"
)

// WorkloadName is what people call the workload of the key: "PodGroup team-a/train", "pod team-a/x".
func WorkloadName(key string) string {
	namespace, rest, ok := strings.Cut(key, "/")
	if !ok {
		return key
	}
	kind, name, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		kind, name = "pod", rest
	case kind == podGroup:
		kind = "PodGroup"
	case kind == compositePodGroup:
		kind = "CompositePodGroup"
	}
	return kind + " " + namespace + "/" + name
}

// WorkloadFor is what readers of a namespace are told of the workload with the key: its name if it is in that namespace, and
// otherwise its queue.
func WorkloadFor(namespace, key, queue string) string {
	if home, _, _ := strings.Cut(key, "/"); home == namespace {
		return WorkloadName(key)
	}
	if queue == "" {
		return "a workload of another namespace"
	}
	return "a workload of queue " + queue
}

// Marker makes marks, which tell workloads apart that are not named. A mark is a keyed hash: with the secret the workload of a
// mark can be found again, and without it a guess cannot even be confirmed. The same secret always gives the same marks.
type Marker struct {
	secret []byte
}

// NewMarker makes a Marker of a secret of the cluster, which only its scheduler knows: 16 random bytes at least.
func NewMarker(secret []byte) Marker { return Marker{secret: secret} }

// markBytes is how much of the hash a mark has: among a million workloads two have the same once in 30 million clusters.
const markBytes = 8

// Mark is the workload's mark, such as #9f86d081884c7d65.
func (m Marker) Mark(workload string) string {
	h := hmac.New(sha256.New, m.secret)
	h.Write([]byte(workload))
	return fmt.Sprintf("#%x", h.Sum(nil)[:markBytes])
}

// NamesWorkload says whether the gate's Object is the key of another workload.
func (g Gate) NamesWorkload() bool { return g.Cause == KeptForPromise || g.Cause == BehindTheHead }
