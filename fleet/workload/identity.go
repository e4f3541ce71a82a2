package workload

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Identity says who a program is to its peers and to its checkpoints.
type Identity struct {
	// Group is shared by the programs that work together. It should be unique to one job.
	Group string
	// Index is the rank, or the index among independent programs; -1 lets the Registry choose.
	Index int
	// Pod is unique among running pods, and shown in the logs of peers.
	Pod string
}

// Where Kubernetes writes the index of a pod within its owner.
const (
	jobIndexKey         = "batch.kubernetes.io/job-completion-index" // annotation, and label
	statefulSetIndexKey = "apps.kubernetes.io/pod-index"             // label
)

// IdentityOf finds a pod's identity. The group is sim.berth.dev/group within the namespace,
// else the controller that owns the pod, else the pod itself; owners carry their UID, so a
// job deleted and made again starts from nothing while a group named by hand carries on.
func IdentityOf(pod *corev1.Pod, spec Spec) Identity {
	return Identity{Group: groupOf(pod, spec), Index: indexOf(pod, spec), Pod: pod.Namespace + "/" + pod.Name}
}

func groupOf(pod *corev1.Pod, spec Spec) string {
	if spec.Group != "" {
		return fmt.Sprintf("group/%s/%s", pod.Namespace, spec.Group)
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf("%s/%s/%s/%s", owner.Kind, pod.Namespace, owner.Name, owner.UID)
	}
	return fmt.Sprintf("Pod/%s/%s/%s", pod.Namespace, pod.Name, pod.UID)
}

func indexOf(pod *corev1.Pod, spec Spec) int {
	if spec.Rank >= 0 {
		return spec.Rank
	}
	for _, text := range []string{pod.Annotations[jobIndexKey], pod.Labels[jobIndexKey], pod.Labels[statefulSetIndexKey]} {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			return n
		}
	}
	return -1
}
