package submit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// served is a cluster of empty nodes in which Berth's scheduler runs.
func served(nodes int) *facts.Facts {
	f := clusterOf(nodes, 0)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth", UID: "lease"}}
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	f.Leases = append(f.Leases, l)
	return f
}

// TestQuotasCountAllPods has the pods of manifests let in one after the other, and counts every key and scope of every quota.
func TestQuotasCountAllPods(t *testing.T) {
	list := func(text string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, part := range strings.Fields(text) {
			name, amount, _ := strings.Cut(part, "=")
			out[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
		return out
	}
	const gpu = "requests.nvidia.com/gpu"
	for _, c := range []struct {
		name, text, hard, used string
		scope                  corev1.ResourceQuotaScope
		want                   string
	}{
		{name: "fits exactly", text: deployment("d", 2, 4, ""), hard: gpu + "=8", want: "d starts now on node node-0"},
		{name: "the last one is too much", text: deployment("d", 3, 4, ""), hard: gpu + "=8", want: "d never quota-exceeded: quota q of namespace default allows 8 " + gpu + ", and its 3 pods ask for 4 each; raise " + gpu + " of quota q from 8 to 12"},
		{name: "used by others", text: deployment("d", 2, 4, ""), hard: gpu + "=8", used: gpu + "=4", want: "d waits quota-exceeded: 1 of 2 pods start now; for the others: quota q allows 8 " + gpu + ", of which 8 are used"},
		{name: "two workloads", text: deployment("a", 1, 4, "") + "---" + deployment("b", 2, 4, ""), hard: gpu + "=8", want: "a starts now on node node-0\nb waits quota-exceeded: 1 of 2 pods start now; for the others: quota q allows 8 " + gpu + ", of which 8 are used"},
		{name: "a Job runs a part at a time", text: job("j", 3, 4, ""), hard: gpu + "=8", want: "j waits quota-exceeded: 2 of 3 pods start now; for the others: quota q allows 8 " + gpu + ", of which 8 are used"},
		{name: "a gang does not start by parts", text: gang(3, 4, ""), hard: gpu + "=8", want: "g never quota-exceeded: quota q of namespace default allows 8 " + gpu + ", and its 3 pods ask for 4 each; raise " + gpu + " of quota q from 8 to 12"},
		{name: "number of pods", text: deployment("d", 3, 1, ""), hard: "pods=2", want: "d never quota-exceeded: quota q of namespace default allows 2 pods, and its 3 pods ask for 1 each; raise pods of quota q from 2 to 3"},
		{name: "in its scope", text: deployment("d", 3, 1, ""), hard: gpu + "=2", scope: corev1.ResourceQuotaScopeNotTerminating, want: "d never quota-exceeded: quota q of namespace default allows 2 " + gpu + ", and its 3 pods ask for 1 each; raise " + gpu + " of quota q from 2 to 3"},
		{name: "out of its scope", text: deployment("d", 3, 1, ""), hard: gpu + "=2", scope: corev1.ResourceQuotaScopeTerminating, want: "d starts now on node node-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := served(4)
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q", UID: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: list(c.hard)}}
			q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: list(c.used)}
			if c.scope != "" {
				q.Spec.Scopes = []corev1.ResourceQuotaScope{c.scope}
			}
			f.ResourceQuotas = []*corev1.ResourceQuota{q}
			var got []string
			r := Check(World{Facts: f}, "default", items(t, c.text))
			for _, w := range r.Workloads {
				said := w.Target.Name + " " + w.Summary
				if w.Verdict != Starts {
					said = fmt.Sprintf("%s %s %s: %s", w.Target.Name, w.Verdict, w.Cause, w.Summary)
				}
				for _, x := range w.Fixes {
					said += "; " + x.Edit
					raised := q.DeepCopy()
					raised.Spec.Hard = list(c.hard)
					for key := range raised.Spec.Hard {
						raised.Spec.Hard[key] = resource.MustParse(x.Edit[strings.LastIndex(x.Edit, " ")+1:])
					}
					raised.Status.Hard = raised.Spec.Hard
					after := served(4)
					after.ResourceQuotas = []*corev1.ResourceQuota{raised}
					if again := Check(World{Facts: after}, "default", items(t, c.text)).Workloads[0]; again.Verdict != Starts {
						t.Errorf("after %q: %s, %s", x.Edit, again.Verdict, again.Summary)
					}
				}
				got = append(got, said)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A manifest that takes the place of what runs needs no more quota than it had.
func TestQuotaIsFreedByWhatIsReplaced(t *testing.T) {
	f := clusterOf(2, 0)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q", UID: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("8")}}}
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: q.Spec.Hard}
	f.ResourceQuotas = []*corev1.ResourceQuota{q}
	was := Check(World{Facts: clusterOf(2, 0)}, "default", items(t, job("j", 1, 8, ""))) // for its object
	if was.Workloads[0].Verdict != Starts {
		t.Fatal(was.Workloads[0].Summary)
	}
	c := newChecker(World{Facts: f})
	for _, o := range c.read("default", items(t, job("j", 1, 8, ""))) {
		facts.KindOfObject(o).Add(&f.Objects, o)
	}
	pod := c.subs[0].pods[0].DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "node-0", corev1.PodRunning
	f.Pods = append(f.Pods, pod)
	if w := Check(World{Facts: f}, "default", items(t, job("j", 1, 8, ""))).Workloads[0]; w.Verdict != Starts {
		t.Errorf("%s, %s", w.Verdict, w.Summary)
	}
	if w := Check(World{Facts: f}, "default", items(t, job("other", 1, 8, ""))).Workloads[0]; w.Verdict != Waits {
		t.Errorf("beside it: %s, %s", w.Verdict, w.Summary)
	}
}

// A change of a manifest does not get it past a quota.
func TestFixesHeedQuotas(t *testing.T) {
	for hard, want := range map[string]string{"8": "starts", "4": "", "6": ""} {
		f := clusterOf(2, 0)
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q", UID: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(hard)}}}
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard}
		f.ResourceQuotas = []*corev1.ResourceQuota{q}
		got := ""
		text := strings.Replace(deployment("d", 2, 4, ""), "    spec:", "    spec:\n      nodeSelector: {nvidia.com/gpu.product: H100}", 1)
		for _, x := range Check(World{Facts: f}, "default", items(t, text)).Workloads[0].Fixes {
			if x.Patch != nil {
				got = string(x.Then)
			}
		}
		if got != want {
			t.Errorf("with a quota of %s: %q, want %q", hard, got, want)
		}
	}
}
