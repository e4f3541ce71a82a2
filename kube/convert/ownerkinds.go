package convert

import "strings"

// OwnerKind is a kind whose objects make pods, or make what makes pods, and whose word under our keys holds for them.
type OwnerKind struct {
	Group, Kind, Plural string
	Short               []string // as kubectl has them
	// Typed says that the scheduler reads more of it than metadata: how many pods it makes.
	Typed bool
}

// OwnerKinds are all of them. The policies berth-hold and berth-user guard the same; a test compares them.
func OwnerKinds() []OwnerKind {
	return []OwnerKind{
		{"", "ReplicationController", "replicationcontrollers", []string{"rc"}, false},
		{"apps", "Deployment", "deployments", []string{"deploy"}, true},
		{"apps", "ReplicaSet", "replicasets", []string{"rs"}, true},
		{"apps", "StatefulSet", "statefulsets", []string{"sts"}, true},
		{"apps", "DaemonSet", "daemonsets", []string{"ds"}, false},
		{"batch", "Job", "jobs", nil, true},
		{"batch", "CronJob", "cronjobs", []string{"cj"}, false},
		{"jobset.x-k8s.io", "JobSet", "jobsets", nil, false},
		{"leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", []string{"lws"}, false},
		{"ray.io", "RayCluster", "rayclusters", nil, false},
		{"ray.io", "RayJob", "rayjobs", nil, false},
		{"ray.io", "RayService", "rayservices", nil, false},
		{"kubeflow.org", "PyTorchJob", "pytorchjobs", nil, false},
		{"kubeflow.org", "TFJob", "tfjobs", nil, false},
		{"kubeflow.org", "MPIJob", "mpijobs", nil, false},
		{"kubeflow.org", "XGBoostJob", "xgboostjobs", nil, false},
		{"kubeflow.org", "PaddleJob", "paddlejobs", nil, false},
		{"kubeflow.org", "JAXJob", "jaxjobs", nil, false},
		{"trainer.kubeflow.org", "TrainJob", "trainjobs", nil, false},
		{"batch.volcano.sh", "Job", "jobs", []string{"vcjob", "vj"}, false},
	}
}

// Named says whether the word, in lower case, names the kind: its name, its plural or a short form, with its group after a dot
// or without.
func (k OwnerKind) Named(word string) bool {
	name, group, full := strings.Cut(word, ".")
	if full && group != k.Group {
		return false
	}
	for _, short := range append(k.Short, strings.ToLower(k.Kind), k.Plural) {
		if name == short {
			return true
		}
	}
	return false
}
