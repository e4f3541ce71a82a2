package history_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/history"
)

func template(change func(*corev1.PodSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"pool": "a"},
		Tolerations:  []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}, {Key: "team", Value: "red"}},
		Containers:   []corev1.Container{{Name: "side", Image: "side:1"}, {Name: "main", Image: "main:1", Env: []corev1.EnvVar{{Name: "TOKEN", Value: "s3cret"}}}},
	}}
	if change != nil {
		change(&t.Spec)
	}
	return t
}

// Whatever was changed in a template, the operations of its version bring the earlier one back.
func TestVersionsBringTheEarlierTemplateBack(t *testing.T) {
	for name, change := range map[string]func(*corev1.PodSpec){
		"image":              func(s *corev1.PodSpec) { s.Containers[1].Image = "main:2" },
		"container gone":     func(s *corev1.PodSpec) { s.Containers = s.Containers[1:] },
		"container more":     func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "third"}) },
		"containers turned":  func(s *corev1.PodSpec) { s.Containers[1].Image, s.Containers[0].Image = "main:3", "side:3" },
		"toleration gone":    func(s *corev1.PodSpec) { s.Tolerations = s.Tolerations[:1] },
		"no tolerations":     func(s *corev1.PodSpec) { s.Tolerations = nil },
		"toleration more":    func(s *corev1.PodSpec) { s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "x"}) },
		"toleration changed": func(s *corev1.PodSpec) { s.Tolerations[1].Value = "rad" },
		"selector gone":      func(s *corev1.PodSpec) { s.NodeSelector = nil },
		"selector renamed":   func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pol": "a"} },
		"scheduler":          func(s *corev1.PodSpec) { s.SchedulerName = "other" },
		"environment":        func(s *corev1.PodSpec) { s.Containers[1].Env[0].Value = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "n", Name: "serve", UID: "d"}
			d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template(change)}}
			set := func(name, revision string, t corev1.PodTemplateSpec) *appsv1.ReplicaSet {
				t.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: name}
				return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("u-" + name), Annotations: map[string]string{"deployment.kubernetes.io/revision": revision}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}, Spec: appsv1.ReplicaSetSpec{Template: t}}
			}
			f := &facts.Facts{Objects: facts.Objects{Deployments: []*appsv1.Deployment{d}, ReplicaSets: []*appsv1.ReplicaSet{set("old", "3", template(nil)), set("new", "4", template(change))}}}
			all := history.Versions(f, d)
			if len(all) != 1 || all[0].Revision != 3 || all[0].From != "revision 3" {
				t.Fatalf("versions %+v", all)
			}
			var ops []edit.Op
			for i := range all[0].Changes {
				c := &all[0].Changes[i]
				ops = append(ops, c.Back())
				if was, now := c.Words(); strings.Contains(was+now, "s3cret") {
					t.Errorf("%s shows %q, %q", c.Field(), was, now)
				}
			}
			back, err := edit.Patch(d, "", ops)
			if err != nil {
				t.Fatalf("%+v: %v", ops, err)
			}
			got, want := byName(back.(*appsv1.Deployment).Spec.Template), byName(template(nil))
			if got != want {
				t.Errorf("%+v give\n%s\nwant\n%s", ops, got, want)
			}
		})
	}
}

// byName is the template in words, with its containers in the order of their names, which is not restored.
func byName(t corev1.PodTemplateSpec) string {
	if c := t.Spec.Containers; len(c) == 2 && c[0].Name > c[1].Name {
		c[0], c[1] = c[1], c[0]
	}
	b, _ := json.Marshal(t)
	return string(b)
}

// Revisions of a StatefulSet are in ControllerRevisions; those with ready pods come first.
func TestVersionsOfAStatefulSet(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "store", UID: "s"}, Spec: appsv1.StatefulSetSpec{Template: template(func(s *corev1.PodSpec) { s.Containers[1].Image = "main:3" })}}
	owned := []metav1.OwnerReference{*metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	revision := func(name string, n int64, t corev1.PodTemplateSpec) *appsv1.ControllerRevision {
		b, _ := json.Marshal(map[string]any{"spec": map[string]any{"template": t}})
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, OwnerReferences: owned}, Revision: n, Data: runtime.RawExtension{Raw: b}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "store-0", Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "store-one"}, OwnerReferences: owned}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	f := &facts.Facts{Objects: facts.Objects{StatefulSets: []*appsv1.StatefulSet{s}, Pods: []*corev1.Pod{pod}, ControllerRevisions: []*appsv1.ControllerRevision{
		revision("store-three", 3, s.Spec.Template), revision("store-one", 1, template(nil)), revision("store-two", 2, template(func(s *corev1.PodSpec) { s.NodeSelector = nil })),
	}}}
	all := history.Versions(f, s)
	if len(all) != 2 || all[0].Revision != 1 || all[0].Ready != 1 || all[1].Revision != 2 {
		t.Fatalf("versions %+v", all)
	}
	if c := all[0].Changes; len(c) != 1 || c[0].Field() != "spec.template.spec.containers[1].image" {
		t.Errorf("changes %+v", c)
	}
}

// What was last applied says what a field was, and nothing of the fields that it does not give.
func TestSinceLastApplied(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "serve", Labels: map[string]string{"by": "controller"}}, Spec: appsv1.DeploymentSpec{Paused: true, Replicas: new(int32), Template: template(nil)}}
	d.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"serve"},"spec":{"replicas":2,"template":{"spec":{"nodeSelector":{"pool":"b"},"containers":[{"name":"main","image":"main:1"}]}}}}`}
	all := history.Versions(&facts.Facts{}, d)
	if len(all) != 1 {
		t.Fatalf("versions %+v", all)
	}
	var fields []string
	for _, c := range all[0].Changes {
		fields = append(fields, c.Field())
	}
	if got := strings.Join(fields, " "); got != "spec.replicas spec.template.spec.containers[0] spec.template.spec.nodeSelector.pool" {
		t.Errorf("changes %s", got)
	}
}

// Running pods of the namespace say which values a field may have.
func TestPeers(t *testing.T) {
	pod := func(namespace, name, account string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}, Spec: corev1.PodSpec{ServiceAccountName: account, NodeSelector: map[string]string{"a.b/c": account}}, Status: corev1.PodStatus{Phase: phase}}
	}
	p := pod("n", "mine", "runer", corev1.PodPending)
	f := &facts.Facts{Objects: facts.Objects{Pods: []*corev1.Pod{p, pod("n", "a", "other", corev1.PodRunning), pod("n", "b", "runner", corev1.PodRunning), pod("n", "c", "runner", corev1.PodRunning), pod("n", "d", "pending", corev1.PodPending), pod("m", "e", "foreign", corev1.PodRunning)}}}
	for _, field := range []string{"spec.serviceAccountName", `spec.nodeSelector["a.b/c"]`} {
		var got []string
		for _, peer := range history.Peers(f, p, field) {
			got = append(got, peer.Value+" of "+peer.Pod.Name)
		}
		if text := strings.Join(got, ", "); text != "runner of b, other of a" {
			t.Errorf("%s: %s", field, text)
		}
	}
	if got := history.Peers(f, p, "spec.volumes[3].name"); got != nil {
		t.Errorf("a field that is not there has peers %v", got)
	}
}
