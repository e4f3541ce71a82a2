package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels that Grove's operator writes on pods: operator/api/common/labels.go of ai-dynamo/grove, commit fcc3b3bb.
const (
	podGangName   = "grove.io/podgang"
	podCliqueName = "grove.io/podclique"
)

// podGang is what Grove's operator makes of a replica of a PodCliqueSet, and of each replica of a scaling group above its minimum: pods
// by clique, of each of which a minimum starts with those of the others (scheduler/api/core/v1alpha1/podgang.go). A pod group has the
// name of its PodClique. The operator adds pods to it as cliques grow.
var podGang = controller{
	group: "scheduler.grove.io", kind: "PodGang", versions: []string{"v1alpha1"},
	read: func(o *unstructured.Unstructured) (Set, []string) {
		type packing struct {
			Pack map[string]any `json:"packConstraint"`
		}
		var spec struct {
			Groups []struct {
				Name     string   `json:"name"`
				Pods     []any    `json:"podReferences"`
				Least    *int64   `json:"minReplicas"`
				Topology *packing `json:"topologyConstraint"`
			} `json:"podgroups"`
			Topology *packing `json:"topologyConstraint"`
			Configs  []any    `json:"topologyConstraintGroupConfigs"`
		}
		unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
		out := Set{Field: "spec.podgroups"}
		packed := spec.Topology != nil || len(spec.Configs) > 0
		for _, g := range spec.Groups {
			least := count(g.Least, 1)
			out.Parts = append(out.Parts, Part{Role: g.Name, Pods: max(len(g.Pods), least), Least: least, Elastic: true})
			packed = packed || g.Topology != nil
		}
		if packed {
			unread = append(unread, "spec.topologyConstraint (its pods are placed without regard to it)")
		}
		return out, unread
	},
	made: func(p *dialect.Pod, _ *metav1.OwnerReference) *from {
		if p.Labels[podGangName] == "" || p.Labels[podCliqueName] == "" {
			return nil
		}
		return &from{name: p.Labels[podGangName], role: p.Labels[podCliqueName]}
	},
}
