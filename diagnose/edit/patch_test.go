package edit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPatch(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a/b": "1"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one"}, {Name: "two"}}},
		}
	}
	for _, c := range []struct {
		name string
		op   Op
		want func(*corev1.Pod) // nil: it cannot be done
	}{
		{"add", Op{Op: "add", Path: "/spec/schedulerName", Value: "berth"}, func(p *corev1.Pod) { p.Spec.SchedulerName = "berth" }},
		{"replace what is not there", Op{Op: "replace", Path: "/spec/schedulerName", Value: "berth"}, func(p *corev1.Pod) { p.Spec.SchedulerName = "berth" }},
		{"make a map on the way", Op{Op: "add", Path: Pointer("spec", "nodeSelector", "x/y"), Value: "z"}, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"x/y": "z"} }},
		{"make a list on the way", Op{Op: "add", Path: "/spec/tolerations/-", Value: corev1.Toleration{Key: "k"}}, func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}} }},
		{"escaped key", Op{Op: "replace", Path: Pointer("metadata", "labels", "a/b"), Value: "2"}, func(p *corev1.Pod) { p.Labels["a/b"] = "2" }},
		{"in a list", Op{Op: "replace", Path: "/spec/containers/1/image", Value: "i"}, func(p *corev1.Pod) { p.Spec.Containers[1].Image = "i" }},
		{"out of a list", Op{Op: "remove", Path: "/spec/containers/0"}, func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[1:] }},
		{"beyond a list", Op{Op: "replace", Path: "/spec/containers/2/image", Value: "i"}, nil},
		{"remove what is not there", Op{Op: "remove", Path: "/spec/schedulerName"}, nil},
		{"below a string", Op{Op: "add", Path: "/metadata/name/x", Value: "y"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := pod()
			got, err := Patch(was, "", []Op{c.op})
			if diff := cmp.Diff(pod(), was); diff != "" {
				t.Errorf("the object itself was changed: %s", diff)
			}
			if c.want == nil {
				if err == nil {
					t.Errorf("it was done: %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := pod()
			c.want(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithValues(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/v1", "kind": "K", "spec": map[string]any{"list": []any{map[string]any{"count": int64(1)}}}, "status": map[string]any{"phase": "Old"}}}
	got := WithValues(u, map[string]any{"/spec/list/0/count": 2, "/spec/more/active": true, "/status/phase": nil, "/spec/list/7/count": 3})
	want := map[string]any{"apiVersion": "x/v1", "kind": "K", "spec": map[string]any{"list": []any{map[string]any{"count": int64(2)}}, "more": map[string]any{"active": true}}, "status": map[string]any{}}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
	if n, _, _ := unstructured.NestedString(u.Object, "status", "phase"); n != "Old" {
		t.Error("the object itself was changed")
	}
}
