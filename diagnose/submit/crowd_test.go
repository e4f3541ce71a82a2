package submit

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
)

// BenchmarkCheck is a check against a cluster of 5,000 nodes that was just read: it must answer within a second.
func BenchmarkCheck(b *testing.B) {
	for _, c := range crowds() {
		b.Run(c.name, func(b *testing.B) {
			f, given := timed(clusterOf(5000, c.busy)), items(b, c.text)
			for b.Loop() {
				Check(World{Facts: f}, "default", given)
			}
		})
	}
}

// timed has every running pod say how long it runs, so that there is a future to look into, and every node be of a pool, with
// which it is compared.
func timed(f *facts.Facts) *facts.Facts {
	for i, n := range f.Nodes {
		n.Labels = maps.Clone(n.Labels)
		n.Labels["agentpool"] = fmt.Sprint("pool", i%2)
	}
	for i, p := range f.Pods {
		p.Annotations = map[string]string{v1alpha1.KeyExpectedRun: fmt.Sprintf("%dm", 70+i%500)}
		p.Spec.SchedulerName = "berth"
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: p.CreationTimestamp}}
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth", UID: "lease"}}
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	f.Leases = append(f.Leases, l)
	return f
}

type crowd struct {
	name, text string
	busy       int // nodes
}

// crowds are submissions that are large in every way that one can be.
func crowds() []crowd {
	j := func(i int) string { return job(fmt.Sprint("j", i), 10, 8, "") }
	return []crowd{
		{"starts", job("j", 64, 8, ""), 2500},
		{"waits", job("j", 64, 8, ""), 5000},
		{"never", job("j", 64, 8, "\n      nodeSelector: {nvidia.com/gpu.product: H100}"), 2500},
		{"larger than any node", job("j", 2, 16, ""), 0},
		{"thousands of pods start", job("j", 3000, 8, ""), 1000},
		{"thousands of pods wait", job("j", 3000, 8, ""), 5000},
		{"some of thousands wait", job("j", 3000, 8, ""), 4000},
		{"more pods than nodes", job("j", 5000, 8, ""), 4990},
		{"a hundred jobs start", many(100, j), 2500},
		{"a hundred jobs wait", many(100, j), 5000},
		{"a hundred jobs never", many(100, func(i int) string {
			return job(fmt.Sprint("j", i), 10, 8, fmt.Sprintf("\n      nodeSelector: {pool: p%d}", i))
		}), 2500},
		{"a hundred deployments, none alike", many(100, func(i int) string { return deployment(fmt.Sprint("d", i), 1+i%7, 1+i%8, "") }), 2500},
		{"a thousand jobs wait", many(1000, func(i int) string { return job(fmt.Sprint("j", i), 2, 8, "") }), 5000},
		{"a thousand deployments start", many(1000, func(i int) string { return deployment(fmt.Sprint("d", i), 2, 1, "") }), 2500},
		{"replicas apart", deployment("d", 500, 1, apart), 2500},
		{"replicas apart, no room", deployment("d", 5000, 1, apart), 5000},
		{"replicas spread", deployment("d", 1000, 1, "\n      topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]"), 2500},
		{"too large for all", deployment("d", 3000, 9, ""), 2500},
		{"more than there are", deployment("d", 5000, 8, ""), 2500},
		{"a gang of thousands", gang(2000, 8, ""), 4000},
		{"a gang, larger than any node", gang(512, 16, ""), 2500},
		{"a gang, no such label", gang(512, 8, "\n      nodeSelector: {nvidia.com/gpu.product: H100}"), 2500},
		{"a gang apart in racks", gang(512, 1, apartIn("rack")), 5000},
		{"a gang spread over what no node has", gang(512, 1, spread("block")), 2500},
		{"a gang spread, no room", gang(512, 8, spread("rack")), 5000},
	}
}

// gang is a Job whose pods start together.
func gang(pods, gpus int, more string) string {
	return strings.ReplaceAll(job("g", pods, gpus, "\n      schedulerName: berth"+more), "metadata: {name: g}", "metadata: {name: g, annotations: {berth.dev/gang: g}}")
}

func apartIn(key string) string {
	return "\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {job-name: g}}, topologyKey: " + key + "}]}}"
}

func spread(key string) string {
	return "\n      topologySpreadConstraints: [{maxSkew: 1, topologyKey: " + key + ", whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {job-name: g}}}]"
}

const apart = "\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {a: b}}, topologyKey: kubernetes.io/hostname}]}}"

func many(n int, one func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("---\n" + one(i))
	}
	return b.String()
}

func deployment(name string, replicas, gpus int, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:%s
      containers:
      - {name: a, image: x, resources: {limits: {nvidia.com/gpu: %d}}}
`, name, replicas, more, gpus)
}

// TestUntilWhen has running work say how long it runs, and asks when the manifests start.
func TestUntilWhen(t *testing.T) {
	gang := func(pods int) string { return gang(pods, 8, "") }
	pending := func(n int) func(*facts.Facts) {
		return func(f *facts.Facts) {
			for i := range n {
				p := f.Pods[0].DeepCopy()
				p.Name, p.UID, p.Spec.NodeName, p.Status = fmt.Sprint("before-", i), types.UID(fmt.Sprint("before-", i)), "", corev1.PodStatus{Phase: corev1.PodPending}
				f.Pods = append(f.Pods, p)
			}
		}
	}
	for _, c := range []struct {
		name, text  string
		nodes, busy int
		change      func(*facts.Facts)
		late        bool
		want        time.Duration // from now; 0: it is not said
		because     string
	}{
		{name: "first to end", text: job("j", 1, 8, ""), nodes: 3, busy: 3, want: 10 * time.Minute, because: "waits for other/busy-0 to end"},
		{name: "some start now", text: job("j", 2, 8, ""), nodes: 3, busy: 2, want: 10 * time.Minute, because: "waits for other/busy-0 to end"},
		{name: "a gang waits for the last that it needs", text: gang(2), nodes: 3, busy: 3, want: 11 * time.Minute, because: "waits for other/busy-1 to end"},
		{name: "one is before it", text: job("j", 1, 8, "\n      schedulerName: berth"), nodes: 3, busy: 3, change: pending(1), want: 11 * time.Minute},
		{name: "thousands of its own", text: job("j", 3000, 8, ""), nodes: 50, busy: 50, want: 10 * time.Minute},
		{name: "who starts first", text: gang(1) + "---\n" + job("j", 1, 8, ""), nodes: 2, busy: 1, want: 10 * time.Minute},
		{name: "nobody says", text: job("j", 1, 8, ""), nodes: 1, busy: 1, change: func(f *facts.Facts) { f.Pods[0].Annotations = nil }, because: "no running workload has a known end"},
		{name: "too many before it", text: job("j", 1, 8, "\n      schedulerName: berth"), nodes: 3, busy: 3, change: pending(mostInLine), because: "not estimated: more than 100 workloads are before it in line"},
		{name: "late", text: job("j", 1, 8, ""), nodes: 3, busy: 3, late: true, because: "not estimated: the time for it was up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := timed(clusterOf(c.nodes, c.busy))
			if c.change != nil {
				c.change(f)
			}
			r := Check(World{Facts: f, Late: func() bool { return c.late }}, "default", items(t, c.text))
			w := r.Workloads[len(r.Workloads)-1]
			if w.Verdict != Waits || w.ETA == nil {
				t.Fatalf("%s %s, and no time: %+v", w.Verdict, w.Summary, w.ETA)
			}
			if got := w.ETA.Likely; got.IsZero() != (c.want == 0) || c.want > 0 && got.Sub(now) != c.want || !strings.HasPrefix(w.ETA.Because, c.because) {
				t.Errorf("until %s (%s): %s", got, got.Sub(now), w.ETA.Because)
			}
			if len(w.For) == 0 || !strings.HasPrefix(w.For[0].Workload, "other/busy-") {
				t.Errorf("for whom it waits: %+v", w.For)
			}
		})
	}
}

// TestLateChangesNoVerdict has the time be up from the start: only start times and fixes are missing from the answer.
func TestLateChangesNoVerdict(t *testing.T) {
	for _, c := range []crowd{
		{"starts", job("j", 4, 8, ""), 1},
		{"waits", job("j", 4, 8, ""), 6},
		{"never", job("j", 4, 9, ""), 1},
		{"a label that no node has", job("j", 4, 8, "\n      nodeSelector: {nvidia.com/gpu.product: H100}"), 1},
		{"more than there are", deployment("d", 7, 8, ""), 1},
		{"apart", deployment("d", 7, 1, apart), 1},
		{"several", many(5, func(i int) string { return job(fmt.Sprint("j", i), i+1, 1+2*i, "") }), 2},
	} {
		f := timed(clusterOf(6, c.busy))
		given := items(t, c.text)
		in, late := Check(World{Facts: f}, "default", given), Check(World{Facts: f, Late: func() bool { return true }}, "default", given)
		for i := range in.Workloads {
			a, b := in.Workloads[i], late.Workloads[i]
			if a.Verdict != b.Verdict || a.Pods != b.Pods || len(a.Nodes) != len(b.Nodes) {
				t.Errorf("%s: %s is %s (%s), and %s when late (%s)", c.name, a.Target, a.Verdict, a.Summary, b.Verdict, b.Summary)
			}
		}
	}
}

// TestAlikeIsTheSameAsAlone checks workloads that differ in their names alone together, and each by itself: where there is room
// for all, each gets the same answer.
func TestAlikeIsTheSameAsAlone(t *testing.T) {
	for _, more := range []string{"", "\n      nodeSelector: {nvidia.com/gpu.product: H100}", "\n      priorityClassName: high", "\n      volumes: [{name: v, persistentVolumeClaim: {claimName: gone}}]"} {
		one := func(i int) string { return job(fmt.Sprintf("job-%d", i), 2, 4, more) }
		f := clusterOf(8, 1)
		all := Check(World{Facts: f}, "default", items(t, many(4, one)))
		for i, w := range all.Workloads {
			alone := Check(World{Facts: f}, "default", items(t, one(i))).Workloads[0]
			w.Nodes, alone.Nodes, w.Line, alone.Line = nil, nil, 0, 0
			w.Summary, alone.Summary = strings.SplitN(w.Summary, " on ", 2)[0], strings.SplitN(alone.Summary, " on ", 2)[0]
			for _, r := range []*Workload{&w, &alone} {
				for j := range r.Fixes {
					r.Fixes[j].Outcome = strings.SplitN(r.Fixes[j].Outcome, " on ", 2)[0]
				}
			}
			if diff := cmp.Diff(alone, w); diff != "" {
				t.Errorf("%q: %s", more, diff)
			}
		}
	}
}
