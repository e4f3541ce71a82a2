package edit

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// A pod of which an edit has taken the last request gets one for the limit that the edit gives it.
func TestLimitsAreRequestedWhereNothingWas(t *testing.T) {
	with := func(name corev1.ResourceName) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse("2")}}}}}
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "train", UID: "j"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: with("nvidia.com/gqu")}}}
	was, now := &corev1.Pod{Spec: with("nvidia.com/gqu")}, &corev1.Pod{Spec: with("nvidia.com/gpu")}
	requestLimits(&facts.Facts{Objects: facts.Objects{Jobs: []*batchv1.Job{job}}}, job, was, now)
	if q := now.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]; q.Value() != 2 {
		t.Errorf("it requests %v", now.Spec.Containers[0].Resources.Requests)
	}
}
