package convert

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Owner is what a controller says about the pods it makes.
type Owner struct {
	Kind, Namespace, Name string
	UID                   types.UID
	Controller            types.UID              // of the owner itself; "": none
	By                    *metav1.OwnerReference // the same in words; nil: none

	Keys     Keys // on the owner: they hold for its pods where these say nothing
	Template Keys // on its pod template, and so on its pods
	// Labels and Annotations are those of the object, for dialects; they are shared with it.
	Labels, Annotations map[string]string

	Pods int // how many it still wants to run at a time; 0 where it makes none
	Done int // of its pods, how many have succeeded and are not made again
	// InTurn says that it makes a pod only once the one before is ready.
	InTurn bool
	// Coupled is, of an Indexed Job that runs all its indexes at one time and whose pods have a subdomain to find each other by, how many
	// those are; 0: it is none, or is made by a controller that says more.
	Coupled int
	// Surges says, of a Deployment, that for a while there may be one pod more than it wants.
	Surges bool
	// Selector, of a StatefulSet or ReplicaSet, selects its pods, and never changes; nil: none, or one that is above a limit.
	Selector []engine.Requirement
}

// Keys are values under our own keys.
type Keys map[string]string

// OwnerOf reads a Job, StatefulSet, ReplicaSet or Deployment, or the metadata of another OwnerKind; ok is false for anything else.
func OwnerOf(object any) (o Owner, ok bool) {
	switch c := object.(type) {
	case *batchv1.Job:
		o = newOwner("Job", &c.ObjectMeta, &c.Spec.Template.ObjectMeta)
		o.Pods, o.Done = jobPods(c), int(c.Status.Succeeded)
		o.Keys = withDeadline(o.Keys, c)
		o.Coupled = coupled(c)
	case *appsv1.StatefulSet:
		o = newOwner("StatefulSet", &c.ObjectMeta, &c.Spec.Template.ObjectMeta)
		o.Pods, o.InTurn = replicas(c.Spec.Replicas), c.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
		o.Selector = Selector(c.Spec.Selector)
	case *appsv1.ReplicaSet:
		o = newOwner("ReplicaSet", &c.ObjectMeta, &c.Spec.Template.ObjectMeta)
		o.Pods = replicas(c.Spec.Replicas)
		o.Selector = Selector(c.Spec.Selector)
	case *appsv1.Deployment: // its ReplicaSets make the pods
		o = newOwner("Deployment", &c.ObjectMeta, &metav1.ObjectMeta{})
		o.Surges = surges(c)
	case *metav1.PartialObjectMetadata: // nothing is read of it but whether it is held
		o = newOwner(c.Kind, &c.ObjectMeta, &metav1.ObjectMeta{})
		o.Keys, o.Labels, o.Annotations = o.Keys.Held(), nil, nil
	default:
		return Owner{}, false
	}
	if object.(metav1.Object).GetDeletionTimestamp() != nil {
		o.Pods = 0
	}
	return o, true
}

func newOwner(kind string, o, template *metav1.ObjectMeta) Owner {
	out := Owner{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Keys: keysOf(o), Template: keysOf(template), Labels: o.Labels, Annotations: o.Annotations}
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		out.Controller, out.By = c.UID, c
	}
	return out
}

// jobPods is how many pods the Job runs at a time: its parallelism, or what is left to complete. One whose
// completions are not counted makes no more pods once one has succeeded.
func jobPods(j *batchv1.Job) int {
	pods := replicas(j.Spec.Parallelism)
	switch {
	case finished(j):
		return 0
	case j.Spec.Completions != nil:
		return max(0, min(pods, int(*j.Spec.Completions-j.Status.Succeeded)))
	case j.Status.Succeeded > 0:
		return 0
	}
	return pods
}

// coupled is as Owner.Coupled says.
func coupled(j *batchv1.Job) int {
	s := &j.Spec
	if c := metav1.GetControllerOfNoCopy(j); c != nil && c.Kind != "CronJob" {
		return 0
	}
	if s.CompletionMode == nil || *s.CompletionMode != batchv1.IndexedCompletion || s.Completions == nil || replicas(s.Parallelism) != int(*s.Completions) || s.Template.Spec.Subdomain == "" {
		return 0
	}
	return int(*s.Completions)
}

// withDeadline adds the time that the Job has, which holds for all its pods.
func withDeadline(keys Keys, j *batchv1.Job) Keys {
	d := seconds(j.Spec.ActiveDeadlineSeconds)
	if d == 0 {
		return keys
	}
	if keys == nil {
		keys = make(Keys)
	}
	keys[v1alpha1.KeyDeadline] = d.String()
	return keys
}

func finished(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// Equal says whether two versions of an owner say the same.
func (o *Owner) Equal(other *Owner) bool {
	return o.UID == other.UID && o.Controller == other.Controller && o.Pods == other.Pods && o.Done == other.Done &&
		o.InTurn == other.InTurn && o.Coupled == other.Coupled && o.Surges == other.Surges && maps.Equal(o.Template, other.Template) && o.SaysTheSame(other)
}

// SaysTheSame says whether two versions of an owner say the same to its pods.
func (o *Owner) SaysTheSame(other *Owner) bool {
	return o.Surges == other.Surges && maps.Equal(o.Keys, other.Keys) && maps.Equal(o.Labels, other.Labels) && maps.Equal(o.Annotations, other.Annotations)
}

// Gang names the gang, and the part of it, that the owner's pods are in; "": none. above is what the owner's
// own controllers say, the nearest first.
func (o *Owner) Gang(above ...Keys) (key, subgroup string) {
	get := func(k string) string {
		for _, said := range append([]Keys{o.Template, o.Keys}, above...) {
			if v := said[k]; v != "" {
				return v
			}
		}
		return ""
	}
	if name := get(v1alpha1.KeyGang); name != "" {
		return nativeKey(o.Namespace, name), get(v1alpha1.KeySubgroup)
	}
	return "", ""
}

// KeysOf are the values that an object has under our keys, which hold for its pods; nil: none.
func KeysOf(o *metav1.ObjectMeta) Keys { return keysOf(o) }

// keysOf are the values that the object has under our keys; nil: none.
func keysOf(o *metav1.ObjectMeta) Keys {
	var out Keys
	for _, key := range append(inheritable(), v1alpha1.KeyHold) {
		if v := asked(o, key); v != "" {
			if out == nil {
				out = make(Keys)
			}
			out[key] = v
		}
	}
	return out
}

// WithOwners returns the pod with what its controllers say under our keys, the nearest first, where it says
// nothing itself. An operator's hold counts before all that is nearer. The pod is not written to.
func WithOwners(p *corev1.Pod, said ...Keys) *corev1.Pod {
	var more map[string]string
	for _, keys := range said {
		for key, value := range keys {
			operators := key == v1alpha1.KeyHold && value == v1alpha1.HoldByOperator
			if !operators && (asked(&p.ObjectMeta, key) != "" || more[key] != "") {
				continue
			}
			if more == nil {
				more = make(map[string]string)
			}
			more[key] = value
		}
	}
	if more == nil {
		return p
	}
	out := *p
	maps.Copy(more, without(p.Annotations, more))
	out.Annotations = more
	return &out
}

// Held is of these keys only whether the workload is held.
func (k Keys) Held() Keys {
	if v := k[v1alpha1.KeyHold]; v != "" {
		return Keys{v1alpha1.KeyHold: v}
	}
	return nil
}

// Own are the keys that are the owner's own word. A ReplicaSet has copies of its Deployment's annotations, which the Deployment's
// controller does not remove again: whether it is held the Deployment says alone.
func (o *Owner) Own() Keys {
	if o.By == nil || o.By.Kind != "Deployment" || o.Keys[v1alpha1.KeyHold] == "" {
		return o.Keys
	}
	return without(o.Keys, Keys{v1alpha1.KeyHold: ""})
}

// without returns what is in a and not in b.
func without[M ~map[string]string](a, b M) M {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(key, _ string) bool { _, in := b[key]; return in })
	return out
}
