package facts_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// An event that does not say who wrote it is no scheduler's without a name.
func TestNobodyIsNoScheduler(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	f := &facts.Facts{At: now}
	f.Events = []*corev1.Event{{Reason: "FailedScheduling", LastTimestamp: metav1.Time{Time: now.Add(-time.Minute)}}}
	if got := f.LivingSchedulers(); slices.Contains(got, "") {
		t.Errorf("living schedulers are %q", got)
	}
}

// A scheduler is found by what it says that it serves, by who wrote its events and by the lease that its pods hold, whatever its
// Deployment is called; and what only shares its labels is not taken for it.
func TestSchedulerOfAnotherName(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	deployment := func(name string, available int32, k corev1.Container) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}, Status: appsv1.DeploymentStatus{AvailableReplicas: available}}
		d.Spec.Template.Spec.Containers = []corev1.Container{k}
		return d
	}
	labelled := func(d *appsv1.Deployment, app string) *appsv1.Deployment {
		d.Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": app}
		return d
	}
	lease := func(holder string, ago time.Duration) *coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "lock"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}}
	}
	event := &corev1.Event{Reason: "Scheduled", ReportingController: "gang", ReportingInstance: "gang-placer-5f-x1", LastTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))}
	file := corev1.Container{Image: "registry/kube-scheduler:v1", Args: []string{"--config=/etc/c.yaml"}}
	for _, c := range []struct {
		name string
		want facts.SchedulerState
		facts.Objects
	}{
		{"by a flag", facts.SchedulerAlive, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, corev1.Container{Args: []string{"--scheduler-name=gang"}})}}},
		{"by a flag and a word", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 0, corev1.Container{Command: []string{"run", "--scheduler-name", "gang"}})}}},
		{"in a shell", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 0, corev1.Container{Command: []string{"sh", "-c", "exec placer --scheduler-name='gang' -v 2"}})}}},
		{"by a variable", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 0, corev1.Container{Env: []corev1.EnvVar{{Name: "SCHEDULER_NAME", Value: "gang"}}})}}},
		{"of another name", facts.SchedulerAbsent, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, corev1.Container{Args: []string{"--scheduler-name=other"}})}}},
		{"a controller that hands work on", facts.SchedulerAbsent, facts.Objects{Deployments: []*appsv1.Deployment{deployment("operator", 1, corev1.Container{Args: []string{"--gang-scheduler-name=gang"}})}}},
		{"by its events", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 0, file)}, Events: []*corev1.Event{event}}},
		{"by its events, and its lease", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, file)}, Events: []*corev1.Event{event}, Leases: []*coordinationv1.Lease{lease("placer-5f-x1_1", time.Hour)}}},
		{"by its events, and its lease that is new", facts.SchedulerAlive, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, file)}, Events: []*corev1.Event{event}, Leases: []*coordinationv1.Lease{lease("placer-5f-x2_1", time.Second)}}},
		{"by a configuration that is not read", facts.SchedulerUnclear, facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, file)}}},
		{"by its label", facts.SchedulerDead, facts.Objects{Deployments: []*appsv1.Deployment{labelled(deployment("my-sched", 0, corev1.Container{}), "gang")}}},
		{"by the label of its admission", facts.SchedulerAbsent, facts.Objects{Deployments: []*appsv1.Deployment{labelled(deployment("gang-admission", 1, corev1.Container{}), "gang")}}},
		{"by a StatefulSet", facts.SchedulerAlive, facts.Objects{StatefulSets: []*appsv1.StatefulSet{{ObjectMeta: metav1.ObjectMeta{Name: "gang"}, Status: appsv1.StatefulSetStatus{AvailableReplicas: 1}}}}},
	} {
		f := &facts.Facts{At: now, Objects: c.Objects}
		if got, _, seen := f.Scheduler("gang"); got != c.want {
			t.Errorf("%s: %s %v, want %s", c.name, got, seen, c.want)
		}
	}
	f := &facts.Facts{At: now, Objects: facts.Objects{Deployments: []*appsv1.Deployment{deployment("placer", 1, corev1.Container{Args: []string{"--scheduler-name=gang"}})}}}
	if got := f.LivingSchedulers(); !slices.Contains(got, "gang") {
		t.Errorf("living schedulers are %q", got)
	}
}
