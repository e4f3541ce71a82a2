package diagnose

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

func somePod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID(name), Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.SchedulerName, p.Status.Phase = corev1.DefaultSchedulerName, corev1.PodPending
	change(p)
	return p
}

func runs(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning }

// What no edit may do, whatever a trial says of it: one case for each rule, and beside it an edit much like it that may be.
func TestNever(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}}
	node.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	node.Status.Allocatable = node.Status.Capacity
	broken := node.DeepCopy()
	broken.Name, broken.Status.Allocatable = "broken", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("7")}
	closed := func(n *corev1.Node) edit.Edit {
		c := n.DeepCopy()
		c.Spec.Unschedulable = true
		return edit.Edit{Set: []facts.Object{c}}
	}
	gang := func(p *corev1.Pod) { p.Annotations[v1alpha1.KeyGang] = "g" }
	op := func(o, path string, value any) edit.Edit {
		return edit.Edit{Ops: []edit.Op{{Op: o, Path: path, Value: value}}}
	}
	gone := func(p *corev1.Pod) edit.Edit { return edit.Edit{Gone: []facts.Object{p}} }
	group := func(n int32) *schedulingv1beta1.PodGroup {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "pg", Namespace: "team"}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: n}
		return g
	}
	grouped := func(p *corev1.Pod) {
		name := "pg"
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: "team", UID: "job"}}
	job.Spec.Template.Spec.NodeSelector = map[string]string{"mine": "a"}
	ofJob := somePod("of-job", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		p.Spec.NodeSelector = map[string]string{"mine": "a", "flavor": "b"}
	})
	lone := somePod("lone", func(*corev1.Pod) {})
	shy := somePod("shy", func(p *corev1.Pod) { n := corev1.PreemptNever; p.Spec.PreemptionPolicy = &n })
	queued := somePod("queued", func(p *corev1.Pod) {
		p.Labels["kueue.x-k8s.io/queue-name"] = "q"
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
	})
	m0, m1 := somePod("m0", gang), somePod("m1", gang)
	v0 := somePod("v0", func(p *corev1.Pod) { runs(p); p.Annotations[v1alpha1.KeyGang] = "h" })
	v1 := somePod("v1", func(p *corev1.Pod) { runs(p); p.Annotations[v1alpha1.KeyGang] = "h" })
	plain := somePod("plain", runs)
	guarded := somePod("guarded", func(p *corev1.Pod) { runs(p); p.Labels["app"] = "guarded" })
	system := somePod("system", func(p *corev1.Pod) { runs(p); p.Namespace = metav1.NamespaceSystem })
	marked := somePod("marked", func(p *corev1.Pod) { runs(p); p.Annotations["karpenter.sh/do-not-disrupt"] = "true" })
	f := &facts.Facts{}
	f.Nodes, f.Jobs = []*corev1.Node{node, broken}, []*batchv1.Job{job}
	f.Pods = []*corev1.Pod{lone, shy, queued, m0, m1, v0, v1, plain, guarded, system, marked, ofJob, somePod("g0", grouped), somePod("g1", grouped)}
	f.PodGroups = []*schedulingv1beta1.PodGroup{group(4)}
	f.PodDisruptionBudgets = []*policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Name: "pdb", Namespace: "team"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}}}}
	for _, c := range []struct {
		name string
		top  facts.Object
		e    edit.Edit
		want string // in the reason; "": it may be proposed
	}{
		{"another scheduler for one member", m0, op("replace", "/spec/schedulerName", "default-scheduler"), "split"},
		{"another priority for one member", m0, op("replace", "/spec/priorityClassName", "high"), "split"},
		{"another image for one member", m0, op("replace", "/spec/containers/0/image", "a"), ""},
		{"another scheduler for a pod alone", lone, op("replace", "/spec/schedulerName", "default-scheduler"), ""},
		{"evict one member of a gang", lone, gone(v0), "part of"},
		{"evict all members of a gang", lone, edit.Edit{Gone: []facts.Object{v0, v1}}, ""},
		{"start with fewer than there are", lone, edit.Edit{Set: []facts.Object{group(1)}}, "minimum"},
		{"start with as many as there will ever be", lone, edit.Edit{Set: []facts.Object{group(2)}}, ""},
		{"leave the queue", queued, op("remove", edit.Pointer("metadata", "labels", "kueue.x-k8s.io/queue-name"), nil), "queue"},
		{"open the queue's gate", queued, op("remove", "/spec/schedulingGates/0", nil), "queue"},
		{"another scheduler for queued work", queued, op("replace", "/spec/schedulerName", "other"), "queue"},
		{"name another queue", queued, op("replace", edit.Pointer("metadata", "labels", "kueue.x-k8s.io/queue-name"), "r"), ""},
		{"evict for a pod that evicts nobody", shy, gone(plain), "nothing is to be evicted"},
		{"evict what a budget protects", lone, gone(guarded), "budget pdb"},
		{"evict part of the system", lone, gone(system), "system"},
		{"evict what is not to be disturbed", lone, gone(marked), "not to be evicted"},
		{"evict a pod alone", lone, gone(plain), ""},
		{"cordon a node that is well", lone, closed(node), "nothing is wrong"},
		{"cordon a node that lacks a GPU", lone, closed(broken), ""},
		{"change a selector that another controller wrote", job, op("remove", edit.Pointer("spec", "nodeSelector", "flavor"), nil), "another controller"},
		{"change the author's selector", job, op("replace", edit.Pointer("spec", "nodeSelector", "mine"), "b"), ""},
	} {
		got := never(f, c.top, c.e)
		if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What an edit takes for granted is said.
func TestAssumed(t *testing.T) {
	lone := somePod("lone", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
	})
	other := somePod("other", func(p *corev1.Pod) { runs(p); p.Namespace = "elsewhere" })
	f := &facts.Facts{}
	f.Pods = []*corev1.Pod{lone, other}
	product := edit.Pointer("spec", "nodeSelector", "nvidia.com/gpu.product")
	for _, c := range []struct {
		name string
		e    edit.Edit
		want string
	}{
		{"another model", edit.Edit{Ops: []edit.Op{{Op: "replace", Path: product, Value: "NVIDIA-L40S"}}}, "runs on NVIDIA-L40S"},
		{"the same model, spelled right", edit.Edit{Ops: []edit.Op{{Op: "replace", Path: product, Value: "NVIDIA-A100-SXM4-80G"}}}, ""},
		{"no runtime class", edit.Edit{Ops: []edit.Op{{Op: "remove", Path: "/spec/runtimeClassName"}}}, "runtime class"},
		{"others' work", edit.Edit{Gone: []facts.Object{other}}, "namespace elsewhere agrees"},
	} {
		if got := assumed(f, lone, c.e); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// An edited pod asks for what the API server makes of it: a limit is a request, and a LimitRange gives what is left out.
func TestEditedPodIsDefaulted(t *testing.T) {
	p := somePod("train", func(p *corev1.Pod) {
		gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("4")}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: gpus, Requests: gpus}}}
	})
	f := &facts.Facts{}
	f.Pods = []*corev1.Pod{p}
	f.LimitRanges = []*corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}}}}}
	written := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	after, _, err := edit.After(f, p, []edit.Edit{{Ops: []edit.Op{{Op: "replace", Path: "/spec/containers/0/resources", Value: written}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := after.PodNamed("team", "train").Spec.Containers[0].Resources.Requests
	for name, want := range map[corev1.ResourceName]string{"nvidia.com/gpu": "8", "cpu": "1", "memory": "1Gi"} {
		if q := got[name]; q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("it asks for %s %s, want %s", &q, name, want)
		}
	}
}
