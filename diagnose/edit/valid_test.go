package edit

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
)

// TestRejectedEditsAreNotTried holds that an edit after which the API server would not have the workload cannot be made, though
// its pods would find a place.
func TestRejectedEditsAreNotTried(t *testing.T) {
	spread := func(key string) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule}
	}
	d := &appsv1.Deployment{}
	d.Name, d.Namespace, d.UID = "serve", "team", "d"
	d.Spec.Template.Spec = corev1.PodSpec{
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{spread("kubernetes.ip/hostname"), spread("kubernetes.io/hostname")},
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")},
		}}},
	}
	f := &facts.Facts{Objects: facts.Objects{Deployments: []*appsv1.Deployment{d}}}
	for _, c := range []struct {
		name string
		ops  []Op
		ok   bool
	}{
		{"two spreads of a kind", []Op{{Op: "replace", Path: "/spec/topologySpreadConstraints/0/topologyKey", Value: "kubernetes.io/hostname"}}, false},
		{"one of them gone", []Op{{Op: "remove", Path: "/spec/topologySpreadConstraints/0"}}, true},
		{"a request above its limit", []Op{{Op: "replace", Path: "/spec/containers/0/resources/requests/memory", Value: "65Gi"}}, false},
		{"a request below it", []Op{{Op: "replace", Path: "/spec/containers/0/resources/requests/memory", Value: "32Gi"}}, true},
	} {
		_, _, err := After(f, d, []Edit{{Side: Workload, Ops: c.ops}})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
