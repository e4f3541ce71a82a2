package kai

import (
	"strings"
	"time"
)

// KAI's objects: a PodGroup that its grouper makes for every workload, and Queues, in a tree, with a quota that is
// deserved and a limit that is never passed; -1 is unlimited.
const (
	Queues     = "Queue.scheduling.run.ai"
	PodGroups  = "PodGroup.scheduling.run.ai"
	QueueLabel = "kai.scheduler/queue"
	GPU        = "nvidia.com/gpu"
)

// ParseTime is the first time in a text.
func ParseTime(text string) (time.Time, bool) {
	for _, word := range strings.Fields(text) {
		if t, err := time.Parse(time.RFC3339, strings.Trim(word, ".,;()\"'")); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
