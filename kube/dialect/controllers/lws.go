package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels that the LeaderWorkerSet's webhook writes on pods: api/leaderworkerset/v1/leaderworkerset_types.go:37-45.
const (
	setName     = "leaderworkerset.sigs.k8s.io/name"
	groupIndex  = "leaderworkerset.sigs.k8s.io/group-index"
	workerIndex = "leaderworkerset.sigs.k8s.io/worker-index"

	exclusiveGroup = "leaderworkerset.sigs.k8s.io/exclusive-topology"
)

// leaderWorkerSet is a gang for each replica: a leader and its workers. With the startup policy LeaderReady the workers are made when
// the leader is ready, and with an exclusive topology when it has a node (pkg/controllers/pod_controller.go:143-170): then they are a
// gang without it.
var leaderWorkerSet = controller{
	group: "leaderworkerset.x-k8s.io", kind: "LeaderWorkerSet", versions: []string{"v1"},
	read: func(o *unstructured.Unstructured) (Set, []string) {
		var spec struct {
			StartupPolicy string `json:"startupPolicy"`
			Template      struct {
				Size *int64 `json:"size"`
			} `json:"leaderWorkerTemplate"`
		}
		unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
		workers := max(0, count(spec.Template.Size, 1)-1)
		// Subgroups that are apart are searched for within a budget, which a choice of models uses up.
		oneModel := dialect.Value(o.Object, "spec", "leaderWorkerTemplate", "subGroupPolicy") == nil
		out := Set{OneModel: oneModel, Field: "spec.leaderWorkerTemplate.size", Parts: []Part{{Role: "leader", Pods: 1, Least: 1}, {Role: "worker", Pods: workers, Least: workers}}}
		if spec.StartupPolicy == "LeaderReady" || o.GetAnnotations()[exclusiveGroup] != "" {
			out.Parts[1].Stage = "worker"
		}
		return out, unread
	},
	made: func(p *dialect.Pod, _ *metav1.OwnerReference) *from {
		at := &from{name: p.Labels[setName], role: "worker", group: p.Labels[groupIndex]}
		if p.Labels[workerIndex] == "0" {
			at.role = "leader"
		}
		if at.name == "" || at.group == "" {
			return nil
		}
		return at
	},
}
