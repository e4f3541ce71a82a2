package convert

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func surging(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "web-h-x", Labels: map[string]string{"app": "web", "pod-template-hash": "h"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-h", UID: "set", Controller: ptr(true)}},
	}}
	change(p)
	return p
}

// Whose next pod can be made early: that of a Deployment which lets a rollout do so, and shares no volume claim.
func TestSurges(t *testing.T) {
	set, above := &Owner{Kind: "ReplicaSet", Namespace: "team", UID: "set", Controller: "web"}, &Owner{Kind: "Deployment", Surges: true}
	for _, c := range []struct {
		name       string
		pod        func(*corev1.Pod)
		set, above *Owner
		want       bool
	}{
		{"of a Deployment", func(*corev1.Pod) {}, set, above, true},
		{"of a ReplicaSet alone", func(*corev1.Pod) {}, set, nil, false},
		{"of nobody known", func(*corev1.Pod) {}, nil, nil, false},
		{"of a Deployment that never has more", func(*corev1.Pod) {}, set, &Owner{Kind: "Deployment"}, false},
		{"of a StatefulSet", func(*corev1.Pod) {}, &Owner{Kind: "StatefulSet", Namespace: "team"}, above, false},
		{"of another namespace", func(*corev1.Pod) {}, &Owner{Kind: "ReplicaSet", Namespace: "other"}, above, false},
		{"without the label", func(p *corev1.Pod) { delete(p.Labels, "pod-template-hash") }, set, above, false},
		{"let go already", func(p *corev1.Pod) {
			says(p, Surge{Set: "web-h", UID: "set", Hash: "h", To: "n"}.String())
		}, set, above, false},
		{"with a claim", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, set, above, false},
		{"with a scratch volume", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, set, above, true},
	} {
		if got := Surges(surging(c.pod), c.set, c.above); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// A Deployment that wants no second pod says so by its strategy.
func TestDeploymentsThatSurge(t *testing.T) {
	rolling := func(v intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &v}}
	}
	for _, c := range []struct {
		strategy appsv1.DeploymentStrategy
		want     bool
	}{
		{appsv1.DeploymentStrategy{}, true},
		{rolling(intstr.FromInt32(1)), true},
		{rolling(intstr.FromString("25%")), true},
		{rolling(intstr.FromInt32(0)), false},
		{rolling(intstr.FromString("0%")), false},
		{appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}, false},
	} {
		if got := surges(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: c.strategy}}); got != c.want {
			t.Errorf("%+v: %v", c.strategy, got)
		}
	}
}

// A pod that was let go is still its ReplicaSet's to everybody here: its queue, its owner and what is learned of it do
// not change. What makes no sense is as nothing.
func TestAPodThatWasLetGo(t *testing.T) {
	until := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	s := Surge{Set: "web-h", UID: "set", Hash: "h", For: "team/job", To: "n2", There: 1, Until: until}
	p := surging(func(p *corev1.Pod) {
		p.OwnerReferences = nil
		says(p, s.String())
		delete(p.Labels, "pod-template-hash")
	})
	if got, ok := SurgeOf(p); !ok || got != s {
		t.Errorf("read back as %+v, %v", got, ok)
	}
	if c := ControllerOf(p); c == nil || c.UID != "set" || c.Name != "web-h" {
		t.Errorf("controller %v", c)
	}
	if got := Pod(p, Options{SchedulerNames: []string{""}}).Owner; got != "team/replicaset/web-h" {
		t.Errorf("owner %q", got)
	}
	if HashOf(p) != "h" {
		t.Errorf("hash %q", HashOf(p))
	}
	for _, text := range []string{"x", "{}", `{"set":"web-h","uid":"set"}`} {
		says(p, text)
		if _, ok := SurgeOf(p); ok || ControllerOf(p) != nil {
			t.Errorf("%q is a surge", text)
		}
	}
	says(p, s.String())
	for name, edit := range map[string]func(){
		"another one": func() {
			p.Annotations[v1alpha1.KeySurge] = Surge{Set: "web-h", UID: "set", Hash: "h", To: "n3"}.String()
		},
		"one that is over":         func() { p.Status.Conditions[0].Status = corev1.ConditionFalse },
		"one that nobody confirms": func() { p.Status.Conditions = nil },
	} {
		says(p, s.String())
		edit()
		if got, ok := SurgeOf(p); ok {
			t.Errorf("%s is a surge: %+v", name, got)
		}
	}
}

// says has the pod say it, and the scheduler confirm it.
func says(p *corev1.Pod, surge string) {
	p.Annotations = map[string]string{v1alpha1.KeySurge: surge}
	p.Status.Conditions = []corev1.PodCondition{{Type: Moving, Status: corev1.ConditionTrue, Message: surge}}
}
