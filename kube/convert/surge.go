package convert

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Surge is what a pod says, under v1alpha1.KeySurge, that is moved and stays until the next one of its ReplicaSet is ready. The
// label by which the ReplicaSet knew it has been taken off, so that the ReplicaSet lets it go and makes the next one; the
// other labels are as before, and Services go on sending to it.
type Surge struct {
	Set  string    `json:"set"` // the ReplicaSet
	UID  types.UID `json:"uid"` // of the ReplicaSet
	Hash string    `json:"hash"`
	For  string    `json:"for,omitempty"` // the workload that gets the place
	To   string    `json:"to"`            // the node where the next one has its place
	// There is how many other pods the ReplicaSet had on that node before.
	There int       `json:"there,omitempty"`
	Until time.Time `json:"until"` // it is given up then
}

// Moving is the condition in which the scheduler confirms what the pod says under v1alpha1.KeySurge. The annotation is written
// together with the label; but whoever may edit the pod may write it too, and places are held by it.
const Moving corev1.PodConditionType = v1alpha1.KeyPrefix + "Moving"

// SurgeOf reads what the pod says and the scheduler confirmed; ok is false where there is nothing of the kind.
func SurgeOf(p *corev1.Pod) (s Surge, ok bool) {
	text := p.Annotations[v1alpha1.KeySurge]
	if text == "" || len(text) > MaxValueBytes || !confirmed(p, text) || json.Unmarshal([]byte(text), &s) != nil {
		return Surge{}, false
	}
	return s, s.UID != "" && s.Set != "" && s.Hash != "" && s.To != ""
}

func confirmed(p *corev1.Pod, text string) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == Moving {
			return c.Status == corev1.ConditionTrue && c.Message == text
		}
	}
	return false
}

// String is the annotation.
func (s Surge) String() string {
	text, _ := json.Marshal(s) // it is of strings, a number and a time
	return string(text)
}

// ControllerOf is the pod's controller, nil for none; of a pod that was let go so that the next one is made, the
// ReplicaSet that it was of.
func ControllerOf(p *corev1.Pod) *metav1.OwnerReference {
	if c := metav1.GetControllerOfNoCopy(p); c != nil {
		return c
	}
	if s, ok := SurgeOf(p); ok {
		return &metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: s.Set, UID: s.UID}
	}
	return nil
}

// HashOf is the label by which the ReplicaSet of a Deployment tells its pods from those of others; "": it has none. What a
// pod says that was let go counts.
func HashOf(p *corev1.Pod) string {
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return hash
	}
	s, _ := SurgeOf(p)
	return s.Hash
}

// Surges says whether the next pod can be made, and can run, before this one is gone: set is the ReplicaSet that the pod
// is of, above its Deployment, nil where they are not known. A Deployment that lets no rollout have a pod more than
// its replicas does not want two, and a volume claim is not shared.
func Surges(p *corev1.Pod, set, above *Owner) bool {
	if set == nil || above == nil || set.Kind != "ReplicaSet" || !above.Surges || set.Namespace != p.Namespace || HashOf(p) == "" {
		return false
	}
	if _, already := SurgeOf(p); already {
		return false
	}
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].PersistentVolumeClaim != nil {
			return false
		}
	}
	return true
}

// surges says whether the Deployment lets a rollout have more pods than its replicas.
func surges(d *appsv1.Deployment) bool {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return false
	}
	r := d.Spec.Strategy.RollingUpdate
	if r == nil || r.MaxSurge == nil {
		return true // the default is a quarter of them
	}
	none := r.MaxSurge.String()
	return none != "0" && none != "0%"
}
