package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Victim is a pod that is evicted for a workload.
type Victim struct {
	Pod string // its key
	Eviction
}

// maxVictims is how many victims are named.
const maxVictims = 8

// MakingRoom is "evicts 3 pods for it: team-a/x, 2 of queue b (reclaimed: queue b had borrowed 8 nvidia.com/gpu)". Pods of
// the namespace that it is told in are named, others counted by queue. There is at least one victim.
func MakingRoom(namespace string, victims []Victim, now time.Time) string {
	var names []string
	others := make(map[string]int) // by queue
	more := 0
	for _, v := range victims {
		switch {
		case namespaceOf(v.Pod) != namespace:
			others[v.Queue]++
		case len(names) < maxVictims:
			names = append(names, v.Pod)
		default:
			more++
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	for _, queue := range slices.Sorted(maps.Keys(others)) {
		of := "of queue " + queue
		if queue == "" {
			of = "of other namespaces"
		}
		names = append(names, fmt.Sprintf("%d %s", others[queue], of))
	}
	first := &victims[0]
	pods := fmt.Sprintf("%d pods", len(victims))
	if len(victims) == 1 {
		pods = "1 pod"
	}
	text := fmt.Sprintf("evicts %s for it: %s (%s)", pods, strings.Join(names, ", "), first.Because())
	if first.At.After(now) {
		text += ", at " + first.At.UTC().Format(time.RFC3339)
	}
	return text
}
