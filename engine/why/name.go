package why

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// What people are told of a workload. Its key is namespace/pod, or namespace/kind/name; people know the kind and the
// name. Who may read one namespace may not know what is in another: there it is told by its queue.

// podGroup is the kind, in keys, of upstream's PodGroups.
const podGroup = "podgroup"

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
	}
	return kind + " " + namespace + "/" + name
}

// WorkloadKey undoes WorkloadName. What is no such name is returned as it is.
func WorkloadKey(name string) string {
	kind, rest, ok := strings.Cut(name, " ")
	namespace, short, slash := strings.Cut(rest, "/")
	switch {
	case !ok || !slash || strings.ContainsAny(rest, " #"):
		return name
	case kind == "pod":
		return rest
	}
	return namespace + "/" + strings.ToLower(kind) + "/" + short
}

// WorkloadFor is what who reads a namespace is told of the workload of the key: its name if it is in there, else the
// queue that it is in.
func WorkloadFor(namespace, key, queue string) string {
	if home, _, _ := strings.Cut(key, "/"); home == namespace {
		return WorkloadName(key)
	}
	if queue == "" {
		return "a workload of another namespace"
	}
	return "a workload of queue " + queue
}

// WorkloadMark tells workloads apart that are not named: who knows the key finds it again.
func WorkloadMark(key string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return fmt.Sprintf("#%08x", h.Sum32())
}

// NamesWorkload says whether the gate's Object is the key of another workload.
func (g Gate) NamesWorkload() bool { return g.Cause == KeptForPromise || g.Cause == BehindTheHead }
