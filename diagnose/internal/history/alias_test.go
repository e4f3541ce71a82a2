package history_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/history"
)

// serviceAccount is another name of serviceAccountName, which the API server goes by: to put it back alone changes nothing.
func TestTheServiceAccountIsOneField(t *testing.T) {
	as := func(name string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: name, DeprecatedServiceAccount: name, Containers: []corev1.Container{{Name: "main", Image: "a:1"}}}}
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "serve", UID: "d"}, Spec: appsv1.DeploymentSpec{Template: as("misspelt")}}
	old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "old", UID: "r", Annotations: map[string]string{"deployment.kubernetes.io/revision": "3"}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}, Spec: appsv1.ReplicaSetSpec{Template: as("plugin")}}
	all := history.Versions(&facts.Facts{Objects: facts.Objects{Deployments: []*appsv1.Deployment{d}, ReplicaSets: []*appsv1.ReplicaSet{old}}}, d)
	if len(all) != 1 || len(all[0].Changes) != 1 || all[0].Changes[0].Field() != "spec.template.spec.serviceAccountName" {
		t.Errorf("versions %+v", all)
	}
}
