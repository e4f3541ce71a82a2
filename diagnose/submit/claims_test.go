package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/devices"
)

// offering is nodes whose drivers offer so many devices each, of classes gpu.example.com and channels.
func offering(each ...int) *facts.Facts {
	f := clusterOf(len(each), 0)
	f.Matches, f.NewAllocator = devices.NewMatcher(), devices.NewAllocator()
	for _, class := range []string{"gpu.example.com", "compute-domain-default-channel.nvidia.com"} {
		f.DeviceClasses = append(f.DeviceClasses, &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec:       resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", class)}}}},
		})
	}
	for i, n := range each {
		add := func(driver string, n int) {
			s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", driver, i)}}
			s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &f.Nodes[i].Name, Pool: resourcev1.ResourcePool{Name: f.Nodes[i].Name, Generation: 1, ResourceSliceCount: 1}}
			for k := range n {
				s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", k)})
			}
			f.ResourceSlices = append(f.ResourceSlices, s)
		}
		if n > 0 {
			add("gpu.example.com", n)
			add("compute-domain-default-channel.nvidia.com", 1)
		}
	}
	return f
}

func claimTemplate(count int) string {
	return fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: gpus}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com, count: %d}}]}}}}`, count)
}

const claiming = `{restartPolicy: Never, resourceClaims: [{name: mine, resourceClaimTemplateName: gpus}], containers: [{name: c, image: registry.example/c:1, resources: {claims: [{name: mine}]}}]}`

// TestClassesOfOtherDrivers has claims of classes that do not exist: one that is misspelt is corrected, and another vendor's devices are offered only
// with what that takes for granted, and never written into the file.
func TestClassesOfOtherDrivers(t *testing.T) {
	for class, want := range map[string]struct{ assumes, patch string }{
		"gpu.exmaple.com": {"", "gpu.example.com"},
		"gpu.amd.com":     {"the work can do with devices of class gpu.example.com in place of gpu.amd.com", ""},
		"gpu.axample.com": {"", "gpu.example.com"},
	} {
		template := strings.Replace(claimTemplate(1), "gpu.example.com", class, 1)
		r := Check(World{Facts: offering(2, 2)}, "default", items(t, template+"\n---\n"+`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: `+claiming+`}`))
		w := r.Workloads[0]
		if w.Verdict != Never || w.Cause != "dra-class-missing" || len(w.Fixes) == 0 {
			t.Errorf("%s: %+v", class, w)
			continue
		}
		for _, f := range w.Fixes {
			if strings.Contains(f.Edit, "gpu.example.com") && f.Assumes != want.assumes {
				t.Errorf("%s: %q assumes %q, want %q", class, f.Edit, f.Assumes, want.assumes)
			}
		}
		for _, f := range r.Findings {
			got := ""
			if len(f.Patch) > 0 {
				got = f.Patch[0].Value.(string)
			}
			if f.Code == "B114" && got != want.patch {
				t.Errorf("%s is patched to %q, want %q", class, got, want.patch)
			}
		}
	}
}

// pods of one object have devices of their own each: what one has been given is not there for the next, on whichever node.
func TestClaimsCountTogether(t *testing.T) {
	job := func(n int) string {
		return fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: %d, completions: %d, template: {spec: %s}}}`, n, n, claiming)
	}
	mpi := func(n int) string {
		return fmt.Sprintf(`{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: j}, spec: {mpiReplicaSpecs: {Worker: {replicas: %d, template: {spec: %s}}}}}`, n, claiming)
	}
	const shared = `{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: gpus}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}}}`
	const sharing = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {resourceClaims: [{name: mine, resourceClaimName: gpus}], containers: [{name: c, image: registry.example/c:1, resources: {requests: {cpu: "%d"}, claims: [{name: mine}]}}]}}}}`
	const domain = `{apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomain, metadata: {name: ring}, spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: gpus}}}}`
	for name, c := range map[string]struct {
		objects []string
		offers  []int
		verdict Verdict
		most    int // pods of a node
	}{
		"one node":               {[]string{claimTemplate(1), job(4)}, []int{4, 4}, Starts, 4},
		"two nodes":              {[]string{claimTemplate(1), job(7)}, []int{4, 4}, Starts, 4},
		"more than there are":    {[]string{claimTemplate(1), job(9)}, []int{4, 4}, Waits, 4}, // a Job's pods run one after the other
		"several each":           {[]string{claimTemplate(3), job(2)}, []int{4, 4}, Starts, 1},
		"a gang":                 {[]string{claimTemplate(1), mpi(7)}, []int{4, 4}, Starts, 4},
		"a gang that is larger":  {[]string{claimTemplate(1), mpi(9)}, []int{4, 4}, Never, 0},
		"a gang, several each":   {[]string{claimTemplate(2), mpi(4)}, []int{4, 4}, Starts, 2},
		"more than one node has": {[]string{claimTemplate(1), job(30)}, []int{16, 16}, Starts, 16}, // which an allocator would try in all orders
		"a gang, of many":        {[]string{claimTemplate(1), mpi(33)}, []int{16, 16}, Never, 16},
		"one claim of all":       {[]string{shared, fmt.Sprintf(sharing, 1)}, []int{1, 1}, Starts, 3},
		"one claim, and no room": {[]string{shared, fmt.Sprintf(sharing, 30)}, []int{1, 1}, Never, 2},
		"a compute domain":       {[]string{domain, job(2)}, []int{4, 4}, Starts, 1},
		"a domain of one node":   {[]string{domain, mpi(2)}, []int{4, 0}, Never, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := Check(World{Facts: offering(c.offers...), Bare: true}, "default", items(t, strings.Join(c.objects, "\n---\n")))
			w := &r.Workloads[0]
			if w.Verdict != c.verdict || len(r.Findings) > 0 {
				t.Errorf("%s: %s; %+v", w.Verdict, w.Summary, r.Findings)
			}
			for _, at := range w.Nodes {
				if at.Pods > c.most {
					t.Errorf("%d pods on %s", at.Pods, at.Node)
				}
			}
		})
	}
}

// A gang starts where all that its members claim can be had, and not in part, whoever says that it is one.
func TestGangsOfClaims(t *testing.T) {
	const queues = `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 1}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team}, spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: c}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [cpu, nvidia.com/gpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: 99}, {name: nvidia.com/gpu, nominalQuota: 99}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: team, namespace: default}, spec: {clusterQueue: c}}
---
`
	pod := func(scheduler string) string {
		return strings.Replace(claiming, "{", "{schedulerName: "+scheduler+", ", 1)
	}
	for dialect, c := range map[string]struct{ scheduler, object string }{
		"volcano": {"volcano", `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j}, spec: {tasks: [{name: lead, replicas: 1, template: {spec: {containers: [{name: c, image: registry.example/c:1}]}}}, {name: w, replicas: %d, template: {spec: POD}}]}}`},
		"kai":     {"kai-scheduler", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {kai.scheduler/queue: team}, annotations: {kai.scheduler/batch-min-member: "MIN"}}, spec: {parallelism: %d, completions: MIN, template: {spec: POD}}}`},
		"kueue":   {"default-scheduler", `{apiVersion: batch/v1, kind: Job, metadata: {name: j, labels: {kueue.x-k8s.io/queue-name: team}}, spec: {parallelism: %d, completions: MIN, template: {spec: POD}}}`},
	} {
		for n, want := range map[int]Verdict{7: Starts, 9: Never} {
			t.Run(fmt.Sprint(dialect, n), func(t *testing.T) {
				f := offering(4, 4)
				f.Speaks = []string{dialect}
				w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", c.scheduler}, Dialects: []string{dialect}}}
				object := fmt.Sprintf(strings.NewReplacer("POD", pod(c.scheduler), "MIN", fmt.Sprint(n)).Replace(c.object), n)
				r := Check(w, "default", items(t, queues+claimTemplate(1)+"\n---\n"+object))
				if got := &r.Workloads[0]; got.Verdict != want {
					t.Errorf("%s on %+v: %s", got.Verdict, got.Nodes, got.Summary)
				}
			})
		}
	}
}

// Claims in an older shape ask for the same, and it is said that somebody has to serve them.
func TestOlderClaims(t *testing.T) {
	older := strings.NewReplacer("resource.k8s.io/v1,", "resource.k8s.io/v1beta1,", "exactly: {", "", "count: 3}}", "count: 3}").Replace(claimTemplate(3))
	r := Check(World{Facts: offering(4, 4), Bare: true}, "default", items(t, older+"\n---\n{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, template: {spec: "+claiming+"}}}"))
	if w := &r.Workloads[0]; w.Verdict != Starts || len(w.Nodes) != 2 {
		t.Errorf("%s on %+v: %s", w.Verdict, w.Nodes, w.Summary)
	}
	if want := []string{"the API server serves resource.k8s.io/v1beta1, which Kubernetes 1.37 does where --runtime-config says so"}; !slices.Equal(r.Assumes, want) {
		t.Errorf("assumed is %q", r.Assumes)
	}
}

// Whatever claims ask for, no node gives more devices than it has.
func TestClaimsNeverOverdraw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		offers := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 3).Draw(rt, "offers")
		each, pods := rapid.IntRange(1, 3).Draw(rt, "each"), rapid.IntRange(1, 8).Draw(rt, "pods")
		kind := rapid.SampledFrom([]string{`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: %d, template: {spec: %s}}}`,
			`{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: j}, spec: {mpiReplicaSpecs: {Worker: {replicas: %d, template: {spec: %s}}}}}`}).Draw(rt, "kind")
		f := offering(offers...)
		r := Check(World{Facts: f, Bare: true}, "default", items(t, claimTemplate(each)+"\n---\n"+fmt.Sprintf(kind, pods, claiming)))
		w := &r.Workloads[0]
		room := 0
		for _, n := range offers {
			room += n / each
		}
		placed := 0
		for _, at := range w.Nodes {
			placed += at.Pods
			for i, n := range f.Nodes {
				if n.Name == at.Node && at.Pods*each > offers[i] {
					rt.Fatalf("%d pods with %d devices each on a node with %d", at.Pods, each, offers[i])
				}
			}
		}
		if (w.Verdict == Starts) && placed < min(pods, room) || room >= pods && w.Verdict != Starts {
			rt.Fatalf("%s, with room for %d of %d: %s", w.Verdict, room, pods, w.Summary)
		}
	})
}
