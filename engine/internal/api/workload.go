package api

import (
	"slices"
	"strings"
)

// WorkloadKey is the key of the workload that the pod belongs to.
func (p *Pod) WorkloadKey() string {
	if p.Gang == "" {
		return p.Key
	}
	return p.Gang
}

// Open says whether a workload of the key may use the queue.
func (q *Queue) Open(key string) bool {
	namespace, _, _ := strings.Cut(key, "/")
	return q.Namespaces == nil || slices.Contains(q.Namespaces, namespace)
}
