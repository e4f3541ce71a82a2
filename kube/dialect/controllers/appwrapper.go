package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// AppWrapperLabel is the label that the AppWrapper's controller writes on what it makes, and on the templates of its pods
// (project-codeflare/appwrapper, commit b47a99ec, internal/controller/appwrapper/resource_management.go:221).
const AppWrapperLabel = "workload.codeflare.dev/appwrapper"

// appWrapper is all pods of the objects that an AppWrapper has in it: one gang, as its quota is for all of them. Where some of those pods are
// made only once others run, or their number changes, nobody can wait for all: then each object in it counts by itself.
var appWrapper = controller{
	group: "workload.codeflare.dev", kind: "AppWrapper", versions: []string{"v1beta2"},
	read: func(o *unstructured.Unstructured) (Set, []string) {
		out := Set{Field: "spec.components"}
		var spec struct {
			Components []appComponent `json:"components"`
		}
		unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
		n := 0
		for i := range spec.Components {
			pods, together := spec.Components[i].pods()
			if !together {
				return out, unread
			}
			n = min(n+pods, mostPods+1)
		}
		if n > 0 {
			out.Parts = []Part{{Pods: n, Least: n, Elastic: true}} // sets that are declared need not be all
		}
		return out, unread
	},
	made: func(p *dialect.Pod, _ *metav1.OwnerReference) *from { return labelled(p, AppWrapperLabel, "") },
}

// appComponent is what matters here of an object in an AppWrapper.
type appComponent struct {
	PodSets []struct {
		Replicas *int64 `json:"replicas"`
	} `json:"podSets"`
	Template map[string]any `json:"template"`
}

// pods is how many pods of the object have the label: those of the sets that are declared, or of those that the AppWrapper's controller finds in
// kinds that it knows (pkg/utils/utils.go, InferPodSets). together is false where they are not there at one time.
func (c *appComponent) pods() (n int, together bool) {
	u := &unstructured.Unstructured{Object: c.Template}
	inferred, together := podsIn(u)
	if len(c.PodSets) == 0 {
		return inferred, together
	}
	for _, s := range c.PodSets {
		n = min(n+count(s.Replicas, 1), mostPods+1)
	}
	return n, together
}

// podsIn is how many pods an object has, of the kinds whose pods an AppWrapper's controller finds by itself: 0 for others.
func podsIn(u *unstructured.Unstructured) (n int, together bool) {
	var of struct {
		Replicas    *int64 `json:"replicas"`
		Parallelism *int64 `json:"parallelism"`
		Completions *int64 `json:"completions"`
		Management  string `json:"podManagementPolicy"`
	}
	dialect.TakeKnown(u.Object["spec"], "spec", &of)
	switch kind := u.GroupVersionKind().GroupKind().String(); kind {
	case "Pod":
		return 1, true
	case "Deployment.apps":
		return count(of.Replicas, 1), true
	case "StatefulSet.apps":
		n = count(of.Replicas, 1)
		return n, n < 2 || of.Management == "Parallel"
	case "Job.batch":
		n = count(of.Parallelism, 1)
		if of.Completions != nil {
			n = min(n, count(of.Completions, n))
		}
		return n, true
	case "RayJob.ray.io":
		spec, _ := dialect.Value(u.Object, "spec", "rayClusterSpec").(map[string]any)
		return podsIn(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}})
	}
	for _, c := range []controller{jobSet, leaderWorkerSet, mpiJob, pyTorchJob, tfJob, xgBoostJob, paddleJob, jaxJob, rayCluster} {
		if c.kind != u.GetKind() || c.group != u.GroupVersionKind().Group {
			continue
		}
		set, _ := c.read(u)
		for _, p := range set.Parts {
			if n += p.Pods; p.Stage != "" || p.Alone != "" || p.Elastic {
				return 0, false
			}
		}
		if set.Least > 0 {
			return 0, false
		}
		if kind := u.GetKind(); kind != "JobSet" && kind != "PyTorchJob" && kind != "RayCluster" { // these need sets that are declared
			return 0, true
		}
		return n, true
	}
	return 0, true
}
