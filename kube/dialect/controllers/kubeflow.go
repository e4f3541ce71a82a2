package controllers

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Labels that Kubeflow's operators write on pods: training-operator pkg/apis/kubeflow.org/v1/common_types.go:24-37, mpi-operator
// pkg/apis/kubeflow/v2beta1/constants.go:33-45. Roles are in lower case there (training-operator pkg/controller.v1/common/pod.go), and
// in the manifest as their authors like.
const (
	kubeflowJob  = "training.kubeflow.org/job-name"
	kubeflowType = "training.kubeflow.org/replica-type"
	kubeflowRole = "training.kubeflow.org/job-role"
)

// The jobs of the training-operator: all replicas are a gang, as its own PodGroup would be (pkg/controller.v1/common/job.go:250-262).
var (
	pyTorchJob = replicaJob("PyTorchJob", "pytorchReplicaSpecs")
	tfJob      = replicaJob("TFJob", "tfReplicaSpecs")
	xgBoostJob = replicaJob("XGBoostJob", "xgbReplicaSpecs")
	paddleJob  = replicaJob("PaddleJob", "paddleReplicaSpecs")
	jaxJob     = replicaJob("JAXJob", "jaxReplicaSpecs")
)

// mpiJob is a launcher and its workers, of the mpi-operator (v2beta1) or of the training-operator (v1). A launcher that waits for its
// workers to be ready is made after them (mpi-operator pkg/controller/mpi_job_controller.go:678), and is no member of their gang.
var mpiJob = func() controller {
	c := replicaJob("MPIJob", "mpiReplicaSpecs")
	c.versions = []string{"v2beta1", "v1"}
	made := c.made
	c.made = func(p *dialect.Pod, top *metav1.OwnerReference) *from {
		at := made(p, top)
		if at != nil && at.role == "" { // mpi-operator writes the role alone
			at.role = strings.ToLower(p.Labels[kubeflowRole])
		}
		return at
	}
	return c
}()

type replicaJobSpec struct {
	ElasticPolicy *struct {
		MinReplicas *int64 `json:"minReplicas"`
	} `json:"elasticPolicy"`
	LauncherCreationPolicy string `json:"launcherCreationPolicy"`
}

// schedulingPolicy has the fields that are understood. Of resources and a time nothing follows: a gang that waits keeps no places, and what
// its pods ask for is known.
type schedulingPolicy struct {
	MinAvailable  *int64 `json:"minAvailable"`
	MinResources  any    `json:"minResources"`
	TimeoutSecond *int64 `json:"scheduleTimeoutSeconds"`
}

func replicaJob(kind, field string) controller {
	c := controller{group: "kubeflow.org", kind: kind, versions: []string{"v1"}}
	c.read = func(o *unstructured.Unstructured) (Set, []string) {
		var spec replicaJobSpec
		unread := dialect.TakeKnown(o.Object["spec"], "spec", &spec)
		replicas := make(map[string]struct {
			Replicas *int64 `json:"replicas"`
		})
		unread = append(unread, dialect.TakeKnown(dialect.Value(o.Object, "spec", field), "spec."+field, &replicas)...)
		out := Set{Field: "spec." + field}
		for _, name := range slices.Sorted(maps.Keys(replicas)) {
			n := count(replicas[name].Replicas, 1)
			part := Part{Role: strings.ToLower(name), Pods: n, Least: n}
			if e := spec.ElasticPolicy; e != nil && part.Role == "worker" {
				part.Least, part.Elastic = min(n, count(e.MinReplicas, 1)), true
			}
			if part.Role == "launcher" && spec.LauncherCreationPolicy == "WaitForWorkersReady" {
				part.Stage = "launcher"
			}
			out.Parts = append(out.Parts, part)
		}
		const at = "spec.runPolicy.schedulingPolicy"
		var policy schedulingPolicy
		if p := dialect.Value(o.Object, "spec", "runPolicy", "schedulingPolicy"); p != nil {
			unread = append(unread, dialect.Take(p, at, &policy)...)
		}
		if n := count(policy.MinAvailable, 0); n > 0 {
			out.Least, out.Field = n, at+".minAvailable"
		}
		return out, unread
	}
	c.made = func(p *dialect.Pod, top *metav1.OwnerReference) *from {
		if !by(top, &c) || p.Labels[kubeflowJob] == "" {
			return nil
		}
		return &from{name: top.Name, role: strings.ToLower(p.Labels[kubeflowType])}
	}
	return c
}
