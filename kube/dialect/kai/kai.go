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
	Topologies = "Topology.kai.scheduler"
	QueueLabel = "kai.scheduler/queue"
	GPU        = "nvidia.com/gpu"
	// SchedulerName is what pods put into spec.schedulerName.
	SchedulerName = "kai-scheduler"
)

// Keys of pods and of the controllers that make them.
const (
	SubgroupLabel        = "kai.scheduler/subgroup-name"
	groupAnnotation      = "pod-group-name"
	skipGrouper          = "kai.scheduler/skip-podgrouper"
	oldQueueLabel        = "runai/queue"
	projectLabel         = "project"
	poolLabel            = "kai.scheduler/node-pool"
	priorityLabel        = "priorityClassName"
	rayPriorityLabel     = "ray.io/priority-class-name" // on Ray's objects, before the other (podgrouper/plugins/ray/ray_grouper.go)
	preemptibilityLabel  = "kai.scheduler/preemptibility"
	minMember            = "kai.scheduler/batch-min-member"
	minMemberStateful    = "kai.scheduler/min-member"
	topologyName         = "kai.scheduler/topology"
	topologyRequired     = "kai.scheduler/topology-required-placement"
	topologyPreferred    = "kai.scheduler/topology-preferred-placement"
	segmentSize          = "kai.scheduler/segment-size"
	segmentRequired      = "kai.scheduler/segment-topology-required-placement"
	preemptionDelay      = "kai.scheduler/preemption-delay"
	defaultQueue         = "default-queue"
	ownDefault           = "kai-default" // what a Queue default is called here
	groupPrefix          = "pg-"
	classTrain           = "train"
	classInference       = "inference"
	firmFrom             = 100 // the priority from which work is not preemptible
	defaultGroupPriority = 50
)

// written are the keys that KAI itself writes.
var written = []string{
	"kai.scheduler/last-start-timestamp", "kai.scheduler/last-eviction-timestamp", "kai.scheduler/stale-podgroup-timestamp", "kai.scheduler/top-owner-metadata",
	"kai.scheduler/numa-placement-predicted", "kai.scheduler/numa-placement-observed", "runai/shared-gpu-configmap",
}

// bare are annotations without a domain that KAI reads and Berth does not.
var bare = []string{"gpu-fraction-container-type", "mps"}

// containerKey names the container that gets a part of a GPU, of which one of partKeys says how much.
const containerKey = "gpu-fraction-container-name"

var partKeys = []string{"gpu-fraction", "gpu-memory"}

// copied are the keys that KAI's grouper copies from a workload onto its PodGroup: they are read, or told of, on its pods.
var copied = append([]string{
	QueueLabel, oldQueueLabel, poolLabel, SubgroupLabel, preemptibilityLabel, minMember, minMemberStateful, topologyName, topologyRequired, topologyPreferred,
	segmentSize, segmentRequired, preemptionDelay,
}, written...)

// ParseTime is the first time in a text.
func ParseTime(text string) (time.Time, bool) {
	for _, word := range strings.Fields(text) {
		if t, err := time.Parse(time.RFC3339, strings.Trim(word, ".,;()\"'")); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
