package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels that KubeRay writes on pods: ray-operator/controllers/ray/utils/constant.go:19-21.
const (
	rayClusterName = "ray.io/cluster"
	rayNodeType    = "ray.io/node-type"
	rayGroup       = "ray.io/group"
)

// rayCluster is a head and its groups of workers, also of a RayJob or a RayService, which make clusters. The pod that submits a RayJob
// is a Job's, and no member. With autoscaling the workers above a group's minimum come one by one; KubeRay counts the same way for
// other schedulers (ray-operator/controllers/ray/utils/util.go:387-429, batchscheduler/volcano/volcano_scheduler.go).
var rayCluster = controller{
	group: "ray.io", kind: "RayCluster", versions: []string{"v1"},
	read: readRayCluster,
	made: func(p *dialect.Pod, _ *metav1.OwnerReference) *from {
		at := labelled(p, rayClusterName, rayGroup)
		if at == nil {
			return nil
		}
		switch p.Labels[rayNodeType] {
		case "head":
			at.role = rayHead
		case "worker":
		default: // cleans up after a cluster, or submits to it
			return nil
		}
		return at
	},
}

// rayHead is the name of the head's group, which no group of workers has.
const rayHead = "headgroup"

type rayClusterSpec struct {
	Autoscaling bool `json:"enableInTreeAutoscaling"`
	Groups      []struct {
		Name       string `json:"groupName"`
		Suspend    bool   `json:"suspend"`
		Replicas   *int64 `json:"replicas"`
		Min        *int64 `json:"minReplicas"`
		Max        *int64 `json:"maxReplicas"`
		NumOfHosts *int64 `json:"numOfHosts"`
	} `json:"workerGroupSpecs"`
}

func readRayCluster(o *unstructured.Unstructured) (Set, []string) {
	var spec rayClusterSpec
	unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
	out := Set{Field: "spec.workerGroupSpecs", Parts: []Part{{Role: rayHead, Pods: 1, Least: 1}}}
	for i := range spec.Groups {
		g := &spec.Groups[i]
		if g.Suspend {
			continue
		}
		least, most, hosts := count(g.Min, 0), count(g.Max, mostPods), max(1, count(g.NumOfHosts, 1))
		n := min(max(count(g.Replicas, least), least), most)
		part := Part{Role: g.Name, Pods: times(n, hosts), Least: times(n, hosts)}
		if part.Elastic = spec.Autoscaling; part.Elastic {
			part.Least = times(least, hosts)
		}
		out.Parts = append(out.Parts, part)
	}
	return out, unread
}
