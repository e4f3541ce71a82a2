package controllers

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels that the JobSet controller writes on the Jobs' pods: api/jobset/v1alpha2/jobset_types.go:24-32, written by
// labelAndAnnotateObject in pkg/controllers/jobset_controller.go:1014.
const (
	jobSetName        = "jobset.sigs.k8s.io/jobset-name"
	replicatedJobName = "jobset.sigs.k8s.io/replicatedjob-name"

	exclusiveTopology    = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	nodeSelectorStrategy = "alpha.jobset.sigs.k8s.io/node-selector"
)

// jobSet is all pods of a JobSet's Jobs: one gang, or one for each stage. Jobs that depend on others, or that start in order, are made
// when those run or are over (pkg/controllers/jobset_controller.go:604-625), and cannot be waited for.
var jobSet = controller{
	group: "jobset.x-k8s.io", kind: "JobSet", versions: []string{"v1alpha2"},
	read: readJobSet,
	made: func(p *dialect.Pod, _ *metav1.OwnerReference) *from {
		return labelled(p, jobSetName, replicatedJobName)
	},
}

// labelled is where a pod with the labels comes from.
func labelled(p *dialect.Pod, name, role string) *from {
	if p.Labels[name] == "" {
		return nil
	}
	return &from{name: p.Labels[name], role: p.Labels[role]}
}

type jobSetSpec struct {
	StartupPolicy struct {
		Order string `json:"startupPolicyOrder"`
	} `json:"startupPolicy"`
	ReplicatedJobs []struct {
		Name      string `json:"name"`
		Replicas  *int64 `json:"replicas"`
		DependsOn []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"dependsOn"`
		Template struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec struct {
				Parallelism *int64 `json:"parallelism"`
				Completions *int64 `json:"completions"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"replicatedJobs"`
}

func readJobSet(o *unstructured.Unstructured) (Set, []string) {
	var spec jobSetSpec
	unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
	out := Set{Field: "spec.replicatedJobs"}
	stages := make(map[string]string) // by what they depend on
	for i := range spec.ReplicatedJobs {
		j := &spec.ReplicatedJobs[i]
		each := count(j.Template.Spec.Parallelism, 1)
		if c := j.Template.Spec.Completions; c != nil {
			each = min(each, count(c, 1))
		}
		n := times(count(j.Replicas, 1), each)
		part := Part{Role: j.Name, Pods: n, Least: n}
		if exclusive(o.GetAnnotations()) || exclusive(j.Template.Metadata.Annotations) {
			part.Alone = exclusiveTopology + " has them made once the first pod of their Job has a node"
		}
		switch {
		case spec.StartupPolicy.Order == "InOrder":
			part.Stage = j.Name
		case len(j.DependsOn) > 0:
			var on []string
			for _, d := range j.DependsOn {
				on = append(on, d.Name+" "+d.Status)
			}
			slices.Sort(on)
			key := strings.Join(on, ",")
			if stages[key] == "" {
				stages[key] = j.Name
			}
			part.Stage = stages[key]
		}
		out.Parts = append(out.Parts, part)
	}
	return out, unread
}

// exclusive says whether each Job has a domain to itself, by rules between pods: then its webhook lets the controller make a Job's pods
// only once the first of them has a node (pkg/webhooks/pod_webhook.go:161-215), and nobody can wait for all of them.
func exclusive(annotations map[string]string) bool {
	return annotations[exclusiveTopology] != "" && annotations[nodeSelectorStrategy] == ""
}
