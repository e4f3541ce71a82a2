package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func TestOwnerOf(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "ns", Name: "x", UID: "u", Annotations: map[string]string{v1alpha1.KeyMin: " 4 ", v1alpha1.KeyWantedGPUs: "not for pods", "other": "x"},
		OwnerReferences: []metav1.OwnerReference{{UID: "above", Controller: ptr(true)}},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.KeyGang: "g"}}}
	base := Owner{Namespace: "ns", Name: "x", UID: "u", Controller: "above", By: &metav1.OwnerReference{UID: "above", Controller: new(true)}, Keys: Keys{v1alpha1.KeyMin: "4"}, Template: Keys{v1alpha1.KeyGang: "g"}}
	job := func(parallelism, completions *int32, succeeded int32) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: parallelism, Completions: completions, Template: template},
			Status: batchv1.JobStatus{Succeeded: succeeded}}
	}
	over := job(ptr(int32(4)), ptr(int32(4)), 0)
	over.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	limited := job(nil, nil, 0)
	limited.Spec.ActiveDeadlineSeconds = ptr(int64(90))
	leaving := job(ptr(int32(4)), nil, 0)
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		object any
		want   func(*Owner)
	}{
		"a job says nothing of counts":       {job(nil, nil, 0), func(o *Owner) { o.Kind, o.Pods = "Job", 1 }},
		"a job runs its parallelism":         {job(ptr(int32(4)), ptr(int32(16)), 3), func(o *Owner) { o.Kind, o.Pods, o.Done = "Job", 4, 3 }},
		"a job runs what is left":            {job(ptr(int32(8)), ptr(int32(8)), 3), func(o *Owner) { o.Kind, o.Pods, o.Done = "Job", 5, 3 }},
		"a work queue that is being emptied": {job(ptr(int32(8)), nil, 1), func(o *Owner) { o.Kind, o.Done = "Job", 1 }},
		"a job with a deadline": {limited, func(o *Owner) {
			o.Kind, o.Pods, o.Keys = "Job", 1, Keys{v1alpha1.KeyMin: "4", "berth.dev/job-deadline": "1m30s"}
		}},
		"a job that is over":          {over, func(o *Owner) { o.Kind = "Job" }},
		"a job that is being deleted": {leaving, func(o *Owner) { o.Kind = "Job" }},
		"a stateful set makes pods in turn": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(3)), Template: template}},
			func(o *Owner) { o.Kind, o.Pods, o.InTurn = "StatefulSet", 3, true },
		},
		"a parallel stateful set": {
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template, PodManagementPolicy: appsv1.ParallelPodManagement}},
			func(o *Owner) { o.Kind, o.Pods = "StatefulSet", 1 },
		},
		"a replica set": {
			&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr(int32(0)), Template: template}},
			func(o *Owner) { o.Kind = "ReplicaSet" },
		},
		"a deployment makes no pods itself": {
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr(int32(3)), Template: template}},
			func(o *Owner) { o.Kind, o.Template, o.Surges = "Deployment", nil, true },
		},
	} {
		want := base
		want.Annotations = c.object.(metav1.Object).GetAnnotations()
		c.want(&want)
		got, ok := OwnerOf(c.object)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, ok, diff)
		}
	}
	if _, ok := OwnerOf(&corev1.Pod{}); ok {
		t.Error("a pod is taken for a controller")
	}
}

// TestWithOwners: the pod counts before its controller, and that before the controller's own.
func TestWithOwners(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.KeyMin: "1"}, Annotations: map[string]string{v1alpha1.KeyGang: " ", "other": "x"}}}
	before := p.DeepCopy()
	got := WithOwners(p, Keys{v1alpha1.KeyMin: "2", v1alpha1.KeyGang: "g"}, Keys{v1alpha1.KeyGang: "h", v1alpha1.KeySize: "3"})
	want := map[string]string{v1alpha1.KeyGang: "g", v1alpha1.KeySize: "3", "other": "x"}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("the pod was written to:\n%s", diff)
	}
	if WithOwners(p, nil, Keys{v1alpha1.KeyMin: "2"}) != p {
		t.Error("a pod to which nothing is added was copied")
	}
}
