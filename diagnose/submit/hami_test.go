package submit

import (
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// shared is two nodes whose GPUs HAMi's plugin gives, of an A100 and of an L4.
func shared() *facts.Facts {
	f := clusterOf(2, 0)
	for _, name := range []string{"berth", "default-scheduler", hami.SchedulerName} {
		f.Leases = append(f.Leases, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("it"), LeaseDurationSeconds: new(int32(15)), RenewTime: &metav1.MicroTime{Time: now}},
		})
	}
	for i, model := range []string{"NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"} {
		n := f.Nodes[i]
		n.Labels["nvidia.com/gpu.product"] = model
		n.Annotations = map[string]string{hami.KeyRegister: hami.Register([]hami.Device{{ID: "GPU-0", Count: 10, Memory: 20000, Cores: 100, Type: model, Mode: hami.Core, Health: true}})}
	}
	return f
}

// TestPodsForHAMi plans pods that name no scheduler, as HAMi's users write them: HAMi's webhook would give them to its scheduler, in whose
// place Berth is. Nothing that they ask for is passed over in silence where no webhook takes them.
func TestPodsForHAMi(t *testing.T) {
	pod := func(annotations, limits, more string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: p, annotations: {` + annotations + `}}, spec: {` + more + ` containers: [{name: c, image: registry.example/c:1, resources: {limits: {` + limits + `}}}]}}`
	}
	const (
		part  = "nvidia.com/gpu: 1, nvidia.com/gpumem: 4000"
		taken = "HAMi's webhook, which names the scheduler of pods that ask HAMi for GPUs, names berth"
	)
	for name, c := range map[string]struct {
		object        string
		f             *facts.Facts
		node          string
		assumes, told string
	}{
		"a model":         {object: pod("nvidia.com/use-gputype: L4", "nvidia.com/gpu: 1", ""), f: shared(), node: "node-1", assumes: taken},
		"all but a model": {object: pod("nvidia.com/nouse-gputype: L4", part, ""), f: shared(), node: "node-0", assumes: taken},
		"a model, of the stock scheduler": {object: pod("nvidia.com/use-gputype: H100", "nvidia.com/gpu: 1", ""), f: clusterOf(1, 0), node: "node-0",
			told: "nvidia.com/use-gputype (schedulerName is default-scheduler, which does not know it)"},
		"a fraction, of the stock scheduler": {object: pod("gpu-fraction: '0.5'", "cpu: 1", ""), f: shared(), told: "gpu-fraction (schedulerName is default-scheduler, which does not know it)"},
		"no wish":                            {object: pod("", "nvidia.com/gpu: 1", ""), f: shared(), node: "node-0"},
		"HAMi's own scheduler":               {object: pod("nvidia.com/use-gputype: L4", part, "schedulerName: hami-scheduler,"), f: shared(), node: "node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check(World{Facts: c.f, Bare: true}, "default", items(t, c.object))
			if w := &r.Workloads[0]; c.node != "" && (w.Verdict != Starts || len(w.Nodes) != 1 || w.Nodes[0].Node != c.node) {
				t.Errorf("want it on %s: %+v", c.node, w)
			}
			if got := strings.Join(r.Assumes, "; "); got != c.assumes {
				t.Errorf("assumes %q, want %q", got, c.assumes)
			}
			var told []string
			for _, f := range slices.Concat(r.Findings, r.Workloads[0].Findings) {
				if f.Code == "B119" {
					told = append(told, strings.TrimPrefix(f.Message, "without effect: pod/p: "))
				}
			}
			if got := strings.Join(told, "; "); got != c.told {
				t.Errorf("told %q, want %q", got, c.told)
			}
		})
	}
}
