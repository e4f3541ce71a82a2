package edit

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Edits of which one undoes another are no fix of two parts; edits of different fields of one object are.
func TestUndone(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: map[string]string{"pool": "a"}}, Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "x", Effect: "NoSchedule"}, {Key: "y", Effect: "NoSchedule"}}}}
	serve := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "serve", UID: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "j"}}
	f := &facts.Facts{Objects: facts.Objects{Nodes: []*corev1.Node{node}, Deployments: []*appsv1.Deployment{serve}, Jobs: []*batchv1.Job{job}}}

	on := func(change func(*corev1.Node)) Edit {
		n := node.DeepCopy()
		change(n)
		return Edit{Set: []facts.Object{n}}
	}
	scale := func(to int32) Edit {
		d := serve.DeepCopy()
		d.Spec.Replicas = &to
		return Edit{Set: []facts.Object{d}}
	}
	ops := func(list ...Op) Edit { return Edit{Ops: list} }
	label := on(func(n *corev1.Node) { n.Labels["pool"] = "b" })
	both := on(func(n *corev1.Node) { n.Labels["pool"], n.Spec.Unschedulable = "b", false })
	for name, c := range map[string]struct {
		edits []Edit
		want  bool
	}{
		"one edit":                        {[]Edit{label}, false},
		"two fields of a node":            {[]Edit{label, on(func(n *corev1.Node) { n.Spec.Unschedulable = false })}, false},
		"two taints of a node":            {[]Edit{on(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:1] }), on(func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[1:] })}, false},
		"the second knows the first":      {[]Edit{label, both}, false},
		"a label, and another value":      {[]Edit{label, on(func(n *corev1.Node) { n.Labels["pool"] = "c" })}, true},
		"a label, and none":               {[]Edit{label, on(func(n *corev1.Node) { delete(n.Labels, "pool") })}, true},
		"a label, and the node goes":      {[]Edit{label, {Gone: []facts.Object{node}}}, true},
		"up and down":                     {[]Edit{scale(4), scale(1)}, true},
		"to nothing and back":             {[]Edit{scale(0), scale(2)}, false}, // the second edit is none: merged with the first, nothing changes
		"two tolerations":                 {[]Edit{ops(Op{"add", "/spec/tolerations/-", map[string]any{"key": "x"}}), ops(Op{"add", "/spec/tolerations/-", map[string]any{"key": "y"}})}, false},
		"all tolerations, twice":          {[]Edit{ops(Op{"add", "/spec/tolerations", []any{map[string]any{"key": "x"}}}), ops(Op{"add", "/spec/tolerations", []any{map[string]any{"key": "y"}}})}, true},
		"a selector, and none at all":     {[]Edit{ops(Op{"add", "/spec/nodeSelector/pool", "b"}), ops(Op{Op: "remove", Path: "/spec/nodeSelector"})}, true},
		"a selector, and a node selected": {[]Edit{ops(Op{"add", "/spec/nodeSelector/pool", "b"}), label}, false},
		"undone by the last of three":     {[]Edit{label, scale(4), on(func(n *corev1.Node) { n.Labels["pool"] = "c" })}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Undone(f, job, c.edits); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
