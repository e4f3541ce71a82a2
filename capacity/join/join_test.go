package join_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
)

var now = time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)

// foreign adds objects, as YAML documents, to the facts.
func foreign(t *testing.T, f *facts.Facts, docs string) {
	t.Helper()
	if f.Foreign == nil {
		f.Foreign = make(map[string][]*unstructured.Unstructured)
	}
	for doc := range strings.SplitSeq(docs, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		key := u.GetKind() + "." + u.GroupVersionKind().Group
		f.Foreign[key] = append(f.Foreign[key], u)
	}
}

func node(name string, gpus, well int64, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}}}
	n.Spec.ProviderID = "aws:///" + name
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(well, resource.DecimalSI)}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	for _, c := range change {
		c(n)
	}
	return n
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func cordoned(n *corev1.Node) {
	n.Spec.Unschedulable = true
	added := metav1.NewTime(now.Add(-30 * time.Minute))
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added})
}

func unready(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }

func holder(node string, gpus int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("holds-", gpus)}}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	list := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}

// shown is the account in lines: reservation, stage, cause, owner, GPUs, price an hour.
func shown(t interface{ Fatal(...any) }, r join.Report) []string {
	l := capacity.New()
	if err := l.Sync(r.At, r.GPUs); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range l.Sums() {
		line := fmt.Sprintf("%s %s %s %s %d", s.Reservation, s.Stage, s.Cause, s.Owner, s.GPUs)
		if s.Unpriced == 0 {
			line += " " + s.PerHour.Text() + " " + s.Currency
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

const reserved = `
apiVersion: berth.dev/v1alpha1
kind: Reservation
metadata: {name: block}
spec: {provider: aws, id: cr-1, instanceType: p5en.48xlarge, gpus: {model: H200, count: 8}, instances: 4, zone: a, price: {perInstanceHour: "63.296"}}
`

// A NodeClaim that its provider refused is the cause of the GPUs that did not come, though Karpenter has deleted it; not when a machine came
// since, nor when nobody remembers.
func TestRefusedNodeClaimIsRemembered(t *testing.T) {
	for _, c := range []struct {
		name, reason, text string
		ago                time.Duration
		want               string
	}{
		{"stockout", "InsufficientCapacityError", "NodeClaim gpu-x1 event: creating instance, insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: none left", 40 * time.Minute, "cloud-stockout"},
		{"used up", "InsufficientCapacityError", "NodeClaim gpu-x1 event: creating instance, with fleet error(s), ReservationCapacityExceeded: used", 10 * time.Minute, "reservation-consumed-elsewhere"},
		{"quota", "LaunchFailed", "VcpuLimitExceeded: you have requested more vCPU capacity than your limit", 10 * time.Minute, "cloud-quota"},
		{"forgotten", "InsufficientCapacityError", "InsufficientInstanceCapacity", 2 * time.Hour, capacity.NotRequested},
		{"something else", "Registered", "Status condition transitioned", time.Minute, capacity.NotRequested},
	} {
		f := &facts.Facts{At: now}
		foreign(t, f, reserved+`
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: karpenter}
spec: {selects: {nodePool: gpu}, reservations: [block]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec: {template: {spec: {requirements: []}}}
`)
		f.Events = []*corev1.Event{{
			InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: "gpu-x1"}, Reason: c.reason, Message: c.text, LastTimestamp: metav1.NewTime(now.Add(-c.ago)),
		}}
		r := join.Of(join.Input{Facts: f})
		if len(r.GPUs) != 32 || r.GPUs[0].Cause != c.want {
			t.Errorf("%s: %d GPUs, %+v", c.name, len(r.GPUs), r.GPUs[:min(1, len(r.GPUs))])
		}
		told := false
		for _, said := range r.Said {
			told = told || strings.Contains(said.Message, "refused NodeClaim gpu-x1 of pool karpenter")
		}
		if told != (c.want != capacity.NotRequested) {
			t.Errorf("%s: said %+v", c.name, r.Said)
		}
	}
}

// A GPU that DCGM shows to be broken while the device plugin still offers it is unhealthy, and the others of its node that nobody holds
// are kept from new work because of it.
func TestBrokenGPUThatIsStillOffered(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("n", 8, 8, func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.KeyUnhealthyGPUs: `[{"uuid":"GPU-7","gpu":"7","why":"Xid 79","since":"2026-11-17T05:00:00Z"}]`}
	})}
	f.Pods = []*corev1.Pod{holder("n", 4)}
	r := join.Of(join.Input{Facts: f})
	want := []string{"advertised gpu-unhealthy platform 1", "healthy gpu-unhealthy platform 3", "allocated not-measured platform 4"}
	if diff := cmp.Diff(want, shown(t, r)); diff != "" {
		t.Error(diff)
	}
}

// TestRealCluster is a cluster of Karpenter's with one reservation: each machine is lost at another step, and one works.
func TestRealCluster(t *testing.T) {
	in := labelled("karpenter.k8s.aws/capacity-reservation-id", "cr-1")
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{
		node("works", 8, 7, in),
		node("cordoned", 8, 8, in, cordoned),
		node("unready", 8, 8, in, unready),
		node("plugged", 8, 0, in), // its device plugin is gone, and the kubelet remembers what it offered
		node("on-demand", 8, 8),
	}
	f.Pods = []*corev1.Pod{holder("works", 4), holder("cordoned", 2)}
	foreign(t, f, strings.ReplaceAll(reserved, "instances: 4", "instances: 6")+`
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: late
  creationTimestamp: "2026-11-17T05:00:00Z"
  labels: {karpenter.sh/nodepool: gpu, karpenter.k8s.aws/capacity-reservation-id: cr-1, karpenter.sh/capacity-type: reserved}
status:
  providerID: aws:///late
  capacity: {nvidia.com/gpu: "8"}
  conditions: [{type: Launched, status: "True", lastTransitionTime: "2026-11-17T05:01:00Z"}, {type: Registered, status: Unknown}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: works, labels: {karpenter.k8s.aws/capacity-reservation-id: cr-1}}
status: {providerID: "aws:///works", nodeName: works, capacity: {nvidia.com/gpu: "8"}}
`)
	want := []string{
		"schedulable idle none 8",
		"block paid reservation-unused-by-provisioner capacity 8 63.296 USD",
		"block registered node-not-ready platform 8 63.296 USD",
		"block ready device-plugin-missing platform 8 63.296 USD",
		"block advertised gpu-unhealthy platform 1 7.912 USD",
		"block healthy node-cordoned platform 6 47.472 USD",
		"block schedulable idle none 3 23.736 USD",
		"block allocated idle-allocation user 2 15.824 USD",
		"block allocated not-measured platform 2 15.824 USD",
		"block busy   2 15.824 USD",
		"block launched machine-never-registered platform 8 63.296 USD",
	}
	r := join.Of(join.Input{Facts: f, Uses: []doctor.Use{{Node: "works", GPU: "0", Busy: true}, {Node: "works", GPU: "1", Busy: true}, {Node: "works", GPU: "2"}, {Node: "works", GPU: "3"}, {Node: "elsewhere", GPU: "0", Busy: true}}})
	if diff := cmp.Diff(want, shown(t, r)); diff != "" {
		t.Error(diff)
	}
	for _, g := range r.GPUs {
		if g.Cause == "node-cordoned" && !g.Since.Equal(now.Add(-30*time.Minute)) || g.Cause == "machine-never-registered" && !g.Since.Equal(now.Add(-59*time.Minute)) {
			t.Errorf("%s since %s", g.Cause, g.Since)
		}
	}
	if diff := cmp.Diff(join.Said{Message: "node cordoned is cordoned, and nothing else says why", Fix: "ask who cordoned the node, and uncordon it", Command: "kubectl uncordon cordoned", Ask: "who cordoned node cordoned"}, r.Said["block/aws:///cordoned"]); diff != "" {
		t.Error(diff)
	}
}

// TestFiveAnswers are five ways in which a reservation gives nothing, and five causes.
func TestFiveAnswers(t *testing.T) {
	pool := `
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: p}
spec: {nodes: 0, gpus: [{model: H200, count: 8}], topology: {zone: a}, reservations: [block]}
`
	for _, c := range []struct {
		name, was, now string
		pool           [2]string
		cause, message string
		paid           bool
	}{
		{"before start", "zone: a", `zone: a, start: "2026-11-17T09:00:00Z"`, [2]string{}, "reservation-not-started", "reservation block starts at 2026-11-17 09:00 UTC, in 3h", false},
		{"after end", "zone: a", `zone: a, end: "2026-11-17T05:00:00Z"`, [2]string{}, "reservation-ended", "reservation block ended at 2026-11-17 05:00 UTC", false},
		{"wrong zone", "zone: a", "zone: b", [2]string{}, "reservation-wrong-zone", "reservation block is in zone b, and pool p is in zone a", true},
		{"wrong type", "", "", [2]string{"H200", "H100"}, "reservation-wrong-type", "reservation block is for p5en.48xlarge with 8 H200, and pool p has machines of another type", true},
		{"another cluster", "spec:", "status: {available: 0}\nspec:", [2]string{}, "reservation-consumed-elsewhere", "4 of 4 instances of reservation block are in use, and 4 of them are not in this cluster", true},
		{"counted before its start", "spec: {", "status: {available: 0, state: scheduled, observedAt: \"2026-10-01T00:00:00Z\"}\nspec: {start: \"2026-11-01T00:00:00Z\", ", [2]string{}, "", "", true},
		{"all is well", "", "", [2]string{}, "", "", true},
	} {
		f := &facts.Facts{At: now}
		foreign(t, f, strings.Replace(reserved, c.was, c.now, 1)+"\n---\n"+strings.Replace(pool, c.pool[0], c.pool[1], 1))
		r := join.Of(join.Input{Facts: f})
		got := r.Reservations[0]
		if got.Cause != c.cause || got.Message != c.message || got.Paid != c.paid {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.cause != "" && got.Owner != "capacity" {
			t.Errorf("%s: owner %q", c.name, got.Owner)
		}
		if c.paid != (len(r.GPUs) == 32) {
			t.Errorf("%s: %d GPUs are paid", c.name, len(r.GPUs))
		}
		for _, g := range r.GPUs {
			if c.cause != "" && g.Cause != c.cause || c.cause == "" && g.Cause != capacity.NotRequested {
				t.Errorf("%s: %s", c.name, g.Cause)
			}
		}
	}
}

// TestPoolsShareReservations gives the machine that can only be in one reservation its place there, whatever it is called.
func TestPoolsShareReservations(t *testing.T) {
	f := &facts.Facts{At: now}
	pool := "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: %s}\nspec: {nodes: %d, gpus: [{model: H200, count: 8}], topology: {zone: a}, reservations: [%s]}\n"
	foreign(t, f, strings.Replace(reserved, "instances: 4", "instances: 3", 1)+"\n---\n"+strings.Replace(strings.Replace(reserved, "instances: 4", "instances: 1", 1), "name: block", "name: spare", 1)+
		"\n---\n"+fmt.Sprintf(pool, "h200", 3, "block, spare")+"\n---\n"+fmt.Sprintf(pool, "h200-lost", 1, "block"))
	got := make(map[string]int)
	for _, g := range join.Of(join.Input{Facts: f}).GPUs {
		got[g.Reservation+" "+g.Pool]++
	}
	if diff := cmp.Diff(map[string]int{"block h200": 16, "block h200-lost": 8, "spare h200": 8}, got); diff != "" {
		t.Error(diff)
	}
}

// TestOpenReservation pays for machines of its type and zone that nobody made for another purpose.
func TestOpenReservation(t *testing.T) {
	f := &facts.Facts{At: now}
	kind := labelled(corev1.LabelInstanceTypeStable, "p5en.48xlarge")
	f.Nodes = []*corev1.Node{
		node("here", 8, 8, kind, labelled(corev1.LabelTopologyZone, "a")),
		node("there", 8, 8, kind, labelled(corev1.LabelTopologyZone, "b")),
		node("spot", 8, 8, kind, labelled(corev1.LabelTopologyZone, "a"), labelled("karpenter.sh/capacity-type", "spot")),
	}
	foreign(t, f, strings.Replace(strings.Replace(reserved, "zone: a", "zone: a, match: open", 1), "instances: 4", "instances: 1", 1))
	want := []string{"schedulable idle none 8", "schedulable idle none 8", "block schedulable idle none 8 63.296 USD"}
	if diff := cmp.Diff(want, shown(t, join.Of(join.Input{Facts: f}))); diff != "" {
		t.Error(diff)
	}
}

// TestOrder holds the account to be the same in whatever order objects are read, and to add up whatever they say.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := &facts.Facts{At: now}
		ids := []string{"", "cr-1", "cr-2"}
		for i := range rapid.IntRange(0, 6).Draw(rt, "nodes") {
			n := node(fmt.Sprint("n", i), rapid.Int64Range(-1, 9).Draw(rt, "capacity"), rapid.Int64Range(-1, 9).Draw(rt, "allocatable"), labelled("karpenter.k8s.aws/capacity-reservation-id", rapid.SampledFrom(ids).Draw(rt, "reservation")))
			if rapid.Bool().Draw(rt, "cordoned") {
				cordoned(n)
			}
			if rapid.Bool().Draw(rt, "unready") {
				unready(n)
			}
			if rapid.IntRange(0, 3).Draw(rt, "twice") == 0 {
				n.Spec.ProviderID = "aws:///same"
			}
			f.Nodes = append(f.Nodes, n)
			f.Pods = append(f.Pods, holder(n.Name, rapid.Int64Range(0, 9).Draw(rt, "held")))
		}
		foreign(t, f, strings.Replace(reserved, "instances: 4", fmt.Sprint("instances: ", rapid.IntRange(0, 4).Draw(rt, "instances")), 1))
		r := join.Of(join.Input{Facts: f})
		paid := 0
		for _, g := range r.GPUs {
			if g.Reservation == "block" {
				paid++
			}
		}
		if want := int(r.Reservations[0].GPUs); paid != want {
			rt.Fatalf("%d GPUs of the reservation are accounted for, of %d", paid, want)
		}
		other := &facts.Facts{At: now}
		other.Nodes, other.Pods, other.Foreign = slices.Clone(f.Nodes), slices.Clone(f.Pods), f.Foreign
		slices.Reverse(other.Nodes)
		slices.Reverse(other.Pods)
		if diff := cmp.Diff(shown(rt, r), shown(rt, join.Of(join.Input{Facts: other}))); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestHolders names the pods of each GPU: those that pods say they were given, the others in order, and all that share one.
func TestHolders(t *testing.T) {
	shared := node("shared", 16, 16, labelled("nvidia.com/gpu.replicas", "2"))
	told := node("told", 8, 8)
	told.Annotations = map[string]string{v1alpha1.KeyGPUTopology: `[{"id":"g0"},{"id":"g1"},{"id":"g2"}]`}
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("counted", 8, 8), shared, told}
	f.Pods = []*corev1.Pod{holder("counted", 3), holder("counted", 2), holder("shared", 1), holder("shared", 4), holder("told", 1)}
	f.Pods[4].Annotations = map[string]string{v1alpha1.KeyGPUs: `{"main":["g2"]}`}
	r := join.Of(join.Input{Facts: f})
	want := map[capacity.ID][]string{
		{Unit: "machine/aws:///counted", Index: 0}: {"team/holds-3"}, {Unit: "machine/aws:///counted", Index: 1}: {"team/holds-3"}, {Unit: "machine/aws:///counted", Index: 2}: {"team/holds-3"},
		{Unit: "machine/aws:///counted", Index: 3}: {"team/holds-2"}, {Unit: "machine/aws:///counted", Index: 4}: {"team/holds-2"},
		{Unit: "machine/aws:///shared", Index: 0}: {"team/holds-1", "team/holds-4"}, {Unit: "machine/aws:///shared", Index: 1}: {"team/holds-4"}, {Unit: "machine/aws:///shared", Index: 2}: {"team/holds-4"},
		{Unit: "machine/aws:///told", Index: 2}: {"team/holds-1"},
	}
	if diff := cmp.Diff(want, r.Holders); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"machine/aws:///counted": "counted", "machine/aws:///shared": "shared", "machine/aws:///told": "told"}, r.Nodes); diff != "" {
		t.Error(diff)
	}
}

// launching is a pool that launches from the reservation, and Machines of it in each state of their life.
const launching = `
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: h200}
spec:
  gpus: [{model: H200, count: 8}]
  topology: {region: r}
  reservations: [block]
  price: {perInstanceHour: "80"}
  launch: {from: [reserved, on-demand], zones: [b, a]}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: asked, creationTimestamp: "2026-11-17T05:59:00Z"}
spec: {pool: h200, index: 0, zone: a, capacityType: reserved, reservation: block, for: team/gang}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: coming, creationTimestamp: "2026-11-17T05:58:00Z"}
spec: {pool: h200, index: 1, zone: a, capacityType: reserved, reservation: block, for: team/gang}
status: {phase: Launched, launchedAt: "2026-11-17T05:58:30.000000Z"}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: late, creationTimestamp: "2026-11-17T05:20:00Z"}
spec: {pool: h200, index: 2, zone: a, capacityType: reserved, reservation: block, for: team/gang}
status: {phase: Launched, launchedAt: "2026-11-17T05:20:30.000000Z"}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: refused, creationTimestamp: "2026-11-17T05:59:00Z"}
spec: {pool: h200, index: 3, zone: a, capacityType: reserved, reservation: block, for: team/gang}
status: {phase: Failed, error: InsufficientInstanceCapacity}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: bought, creationTimestamp: "2026-11-17T05:58:00Z"}
spec: {pool: h200, index: 4, zone: b, capacityType: on-demand, for: team/gang}
status: {phase: Launched, launchedAt: "2026-11-17T05:58:30.000000Z"}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: wanted, creationTimestamp: "2026-11-17T05:59:00Z"}
spec: {pool: h200, index: 5, zone: b, capacityType: on-demand, for: team/gang}
---
apiVersion: berth.dev/v1alpha1
kind: Machine
metadata: {name: node, creationTimestamp: "2026-11-17T05:00:00Z"}
spec: {pool: h200, index: 6, zone: a, capacityType: on-demand, for: team/gang}
status: {phase: Launched, launchedAt: "2026-11-17T05:00:30.000000Z"}
`

// TestMachines counts Machines that are no node yet, joined to their reservation by what was asked for: a machine on demand is not the
// reservation's, though its pool draws on it and has room in it.
func TestMachines(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("node", 8, 8, labelled(v1alpha1.LabelPool, "h200"), labelled(corev1.LabelTopologyZone, "a"))}
	foreign(t, f, reserved+"\n---"+launching)
	r := join.Of(join.Input{Facts: f})
	want := []string{
		"schedulable idle none 8 80.00 USD",
		"launched node-coming none 8 80.00 USD",
		"block paid node-coming none 8 63.296 USD",
		"block paid not-requested capacity 8 63.296 USD",
		"block launched machine-never-registered platform 8 63.296 USD",
		"block launched node-coming none 8 63.296 USD",
	}
	if diff := cmp.Diff(want, shown(t, r)); diff != "" {
		t.Error(diff)
	}
	if got := r.Said["block/berth://coming"].Message; got != "machine coming is launched for team/gang and has not become a node yet" {
		t.Error(got)
	}
}

// TestSelectedNodes are nodes that others make: the Pool that selects them has the price and the reservations, and needs no hardware.
func TestSelectedNodes(t *testing.T) {
	f := &facts.Facts{At: now}
	in := labelled(corev1.LabelTopologyZone, "a")
	f.Nodes = []*corev1.Node{
		node("one", 8, 8, in, labelled("karpenter.sh/nodepool", "gpu"), labelled("karpenter.sh/capacity-type", "reserved")),
		node("two", 8, 8, in, labelled("karpenter.sh/nodepool", "gpu"), labelled("karpenter.sh/capacity-type", "on-demand")),
		node("four", 4, 4, in, labelled("team", "vision"), labelled("nvidia.com/gpu.count", "4")),
		node("eight", 8, 8, in, labelled("team", "vision")),
		node("other", 8, 8, in),
	}
	foreign(t, f, reserved+`
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: karpenter}
spec: {selects: {nodePool: gpu}, reservations: [block], price: {perInstanceHour: "80"}}
---
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: vision}
spec: {selects: {labels: {team: vision}}, reservations: [block]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: late, creationTimestamp: "2026-11-17T05:00:00Z", labels: {karpenter.sh/nodepool: gpu, karpenter.sh/capacity-type: reserved, topology.kubernetes.io/zone: a}}
status: {providerID: "aws:///late", capacity: {nvidia.com/gpu: "8"}, conditions: [{type: Launched, status: "True", lastTransitionTime: "2026-11-17T05:01:00Z"}]}
`)
	got := make(map[string]int)
	r := join.Of(join.Input{Facts: f})
	for _, g := range r.GPUs {
		got[fmt.Sprintf("%s %s %s %t", g.Reservation, g.Pool, g.Stage, g.Price.Known)]++
	}
	want := map[string]int{
		"block karpenter schedulable true": 8, "block karpenter launched true": 8, "block vision schedulable true": 8, "block karpenter paid true": 8,
		" karpenter schedulable true": 8, " vision schedulable false": 4, "  schedulable false": 8,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A node whose GPUs are all divided, and that nothing else is said of, has as many as its instances need.
func TestDividedNode(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("n", 0, 0, func(n *corev1.Node) {
		n.Labels = nil
		for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			list["nvidia.com/mig-1g.10gb"], list["nvidia.com/mig-3g.40gb"] = resource.MustParse("8"), resource.MustParse("2")
		}
	})}
	want := []string{"schedulable idle none 2"}
	if diff := cmp.Diff(want, shown(t, join.Of(join.Input{Facts: f}))); diff != "" {
		t.Error(diff)
	}
}

// TestSaysHowManyAreAdvertised has nodes of eight GPUs that advertise some of them, and none.
func TestSaysHowManyAreAdvertised(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("some", 6, 6), node("none", 0, 0)}
	var said []string
	for _, s := range join.Of(join.Input{Facts: f}).Said {
		said = append(said, s.Message)
	}
	slices.Sort(said)
	for held := range int64(7) { // of six that are advertised, as many are held as pods hold
		f := &facts.Facts{At: now}
		f.Nodes = []*corev1.Node{node("some", 6, 6)}
		f.Pods = []*corev1.Pod{holder("some", held)}
		count := make(map[capacity.Stage]int64)
		for _, g := range join.Of(join.Input{Facts: f}).GPUs {
			count[g.Stage]++
		}
		if count[capacity.Allocated] != held || count[capacity.Schedulable] != 6-held || count[capacity.Ready] != 2 {
			t.Errorf("a pod holds %d: %v", held, count)
		}
	}
	if diff := cmp.Diff([]string{"no device plugin runs on node none", "node some is Ready and advertises 6 of its 8 GPUs"}, said); diff != "" {
		t.Error(diff)
	}
}

// TestRenamedShares has a plugin that gives the shares of its GPUs a name of their own: three of two each are held on two GPUs.
func TestRenamedShares(t *testing.T) {
	f := &facts.Facts{At: now}
	n, p := node("n", 0, 0, labelled("nvidia.com/gpu.replicas", "2")), holder("n", 0)
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("16"), "nvidia.com/gpu": resource.MustParse("0")}
	n.Status.Allocatable = n.Status.Capacity
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu.shared": resource.MustParse("3")}
	f.Nodes, f.Pods = []*corev1.Node{n}, []*corev1.Pod{p}
	got := shown(t, join.Of(join.Input{Facts: f}))
	slices.Sort(got)
	if diff := cmp.Diff([]string{"allocated not-measured platform 2", "schedulable idle none 6"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestReservationsOfOneName: Google's reservations are of a zone, and two zones may each have one of the same name, which is all that the
// label of a node says. A node is paid for by that of its zone.
func TestReservationsOfOneName(t *testing.T) {
	f := &facts.Facts{At: now}
	for _, zone := range []string{"a", "b"} {
		f.Nodes = append(f.Nodes, node("n-"+zone, 8, 8, labelled(corev1.LabelTopologyZone, zone), labelled("cloud.google.com/reservation-name", "h200")))
	}
	f.Nodes = append(f.Nodes, node("n-c", 8, 8, labelled(corev1.LabelTopologyZone, "c"), labelled("cloud.google.com/reservation-name", "h200")))
	text := "apiVersion: berth.dev/v1alpha1\nkind: Reservation\nmetadata: {name: h200.%[1]s}\nspec: {provider: gcp, id: projects/lab/zones/%[1]s/reservations/h200, instanceType: a3-ultragpu-8g, zone: %[1]s, gpus: {model: H200, count: 8}, instances: 2, match: targeted}\n"
	foreign(t, f, fmt.Sprintf(text, "a")+"---\n"+fmt.Sprintf(text, "b"))
	got := make(map[string]string)
	r := join.Of(join.Input{Facts: f})
	for _, g := range r.GPUs {
		got[r.Nodes[g.Unit]] = g.Reservation
	}
	delete(got, "")
	if diff := cmp.Diff(map[string]string{"n-a": "h200.a", "n-b": "h200.b", "n-c": ""}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSamplesOfAnotherMachine: a sample of a GPU that the node does not have, as of a machine that had its name, says nothing of the GPU with that
// index.
func TestSamplesOfAnotherMachine(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("n", 2, 2, labelled("nvidia.com/gpu.count", "2"), func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.KeyGPUTopology: `[{"id":"GPU-a"},{"id":"GPU-b"}]`}
	})}
	f.Pods = []*corev1.Pod{holder("n", 2)}
	uses := []doctor.Use{{Node: "n", GPU: "0", UUID: "GPU-gone", Busy: true}, {Node: "n", GPU: "1", UUID: "GPU-b", Busy: true}}
	want := []string{"allocated not-measured platform 1", "busy   1"}
	if diff := cmp.Diff(want, shown(t, join.Of(join.Input{Facts: f, Uses: uses}))); diff != "" {
		t.Error(diff)
	}
}
