package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// TestAdmission is what admission gives to a pod from objects of the cluster. internal/conformance holds the API's own defaults
// against its code.
func TestAdmission(t *testing.T) {
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Overhead: &nodev1.Overhead{PodFixed: amounts("cpu", "250m")}, Scheduling: &nodev1.Scheduling{
		NodeSelector: map[string]string{"kata": "true"}, Tolerations: []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}},
	}}
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}}
	ranges.Spec.Limits = []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Max: amounts("cpu", "4"), Min: amounts("memory", "1Gi"), DefaultRequest: amounts("cpu", "1")},
		{Type: corev1.LimitTypePod, Max: amounts("memory", "9Gi")},
	}
	never := corev1.PreemptNever
	f := &facts.Facts{}
	f.RuntimeClasses, f.LimitRanges = []*nodev1.RuntimeClass{class}, []*corev1.LimitRange{ranges}
	f.PriorityClasses = []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 900}, {ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true}, {ObjectMeta: metav1.ObjectMeta{Name: "lowest"}, Value: 3, GlobalDefault: true, PreemptionPolicy: &never},
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: corev1.PodSpec{RuntimeClassName: new("kata"), Containers: []corev1.Container{{Name: "c"}}}}
	Fill(p, f)
	shortly := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}
	}
	want := corev1.PodSpec{
		RuntimeClassName: new("kata"), SchedulerName: "default-scheduler", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		Overhead: amounts("cpu", "250m"), NodeSelector: map[string]string{"kata": "true"}, Priority: new(int32(3)), PreemptionPolicy: &never,
		Tolerations: []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}, shortly("node.kubernetes.io/not-ready"), shortly("node.kubernetes.io/unreachable")},
		Containers:  []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: amounts("cpu", "4"), Requests: amounts("cpu", "1", "memory", "1Gi")}}},
	}
	if diff := cmp.Diff(want, p.Spec); diff != "" {
		t.Error(diff)
	}
	before := p.DeepCopy()
	if Fill(p, f); cmp.Diff(before, p) != "" {
		t.Errorf("admitted again, it is another: %s", cmp.Diff(before, p))
	}
}

// Groups have the priority of their class, as pods do.
func TestPriorityOfGroups(t *testing.T) {
	f := &facts.Facts{}
	f.PriorityClasses = []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 5, GlobalDefault: true},
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
	}
	for class, want := range map[string]int32{"": 5, "high": 100, "system-node-critical": 2000001000} {
		g, c := &schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{}
		g.Spec.PriorityClassName, c.Spec.PriorityClassName = class, class
		FillClass(g, f)
		FillClass(c, f)
		if diff := cmp.Diff([]*int32{&want, &want}, []*int32{g.Spec.Priority, c.Spec.Priority}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", class, diff)
		}
	}
}
