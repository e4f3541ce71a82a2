package convert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// What is kept of one object for the engine, and told of it, as JSON: above what the limits allow together.
const (
	mostKept = 256 << 10
	mostTold = 16 << 10
)

// kept fails if what was made of an object is larger than the limits allow.
func kept(t *testing.T, made any) {
	t.Helper()
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > mostKept {
		t.Errorf("%d bytes are kept: %.200s", len(data), data)
	}
}

// rejected are the engine's reasons not to take the changes.
func rejected(changes ...engine.Change) []engine.Rejected {
	return engine.Load(engine.Snapshot{Version: engine.SnapshotVersion}, engine.Config{}).Apply(changes...)
}

// FuzzPod reads any pod. What is made of it is bounded, is the same each time, and of a bound pod it is something that the
// engine takes.
func FuzzPod(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"namespace":"team","name":"p","uid":"u","resourceVersion":"7","annotations":{"berth.dev/gpu-model":"H100, NVIDIA-H200,H100","berth.dev/user":"ada"}},"spec":{"schedulerName":"berth","containers":[{"name":"c","image":"x","ports":[{"hostPort":80}],"resources":{"requests":{"nvidia.com/gpu":"8","cpu":"1500m"}}}]}}`,
		`{"metadata":{"namespace":"team","name":"p","labels":{"berth.dev/gang":"g","berth.dev/subgroup":"s"}},"spec":{"schedulerName":"berth","nodeName":"n","overhead":{"cpu":"-1"},"nodeSelector":{"a":"b"},"tolerations":[{"operator":"Exists"}]}}`,
		`{"metadata":{"namespace":"team","name":"p"},"spec":{"schedulerName":"berth","affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpus","operator":"Gt","values":["4"]}]},{}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}}}}`,
		`{"metadata":{"namespace":"team","name":"p","annotations":{"berth.dev/surge":"{\"set\":\"s\",\"uid\":\"u\",\"hash\":\"h\",\"to\":\"n\"}"}},"spec":{"nodeName":"n","containers":[{"resources":{"requests":{"memory":"1e30"}}}]},"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-16T12:00:00Z"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p corev1.Pod
		if json.Unmarshal(data, &p) != nil {
			return
		}
		before := p.DeepCopy()
		got := convert.Pod(&p, convert.Options{})
		if diff := cmp.Diff(got, convert.Pod(&p, convert.Options{})); diff != "" {
			t.Errorf("it is read in two ways: %s", diff)
		}
		if diff := cmp.Diff(before, &p); diff != "" {
			t.Errorf("it was written to: %s", diff)
		}
		kept(t, withoutMeta(got))
		if told := strings.Join(convert.Unheeded(&p), ", "); len(got.Invalid)+len(told) > mostTold {
			t.Errorf("%d bytes are told: %.500s", len(got.Invalid)+len(told), got.Invalid+told)
		}
		if got.Node != "" && p.Name != "" {
			for _, r := range rejected(engine.Change{Pod: &got}) {
				t.Errorf("a bound pod is rejected: %s", r.Reason)
			}
		}
		gang := convert.NativeGang([]*corev1.Pod{&p}, nil, nil)
		kept(t, withoutKey(gang))
		trimmed := p.DeepCopy()
		convert.Trim(trimmed)
		again := convert.Pod(trimmed, convert.Options{})
		if (again.Invalid == "") != (got.Invalid == "") {
			t.Errorf("trimmed it is %q, and was %q", again.Invalid, got.Invalid)
		}
		again.Invalid = got.Invalid
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("trimmed it is another: %s", diff)
		}
		if diff := cmp.Diff(convert.Unheeded(&p), convert.Unheeded(trimmed)); diff != "" {
			t.Errorf("trimmed it says something else: %s", diff)
		}
	})
}

// withoutMeta leaves out names, which the API server bounds.
func withoutMeta(p engine.Pod) engine.Pod {
	p.Key, p.UID, p.Owner, p.Node, p.Nominated, p.Terms.Like, p.Gang, p.NodeName = "", "", "", "", "", "", "", ""
	for i := range p.Ports { // the API server takes addresses alone
		if len(p.Ports[i].IP) > 64 {
			return engine.Pod{}
		}
	}
	return p
}

func withoutKey(g engine.Gang) engine.Gang {
	g.Key, g.Terms.Like = "", ""
	return g
}

// FuzzModels reads any list of GPU models: each once, in order, and no more than may be.
func FuzzModels(f *testing.F) {
	for _, seed := range []string{"", "H100", " H100 ,, h100,NVIDIA-H100-80GB-HBM3", strings.Repeat("A,", 100), "RTX 6000 Ada,A100-MIG-1g"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		p := waiting()
		p.Annotations[v1alpha1.KeyGPUModel] = list
		got := convert.Pod(p, convert.Options{})
		seen := make(map[string]bool)
		for _, m := range got.GPU.Models {
			if m == "" || seen[m] {
				t.Errorf("%q is in %q", m, got.GPU.Models)
			}
			seen[m] = true
		}
		if len(got.GPU.Models) > convert.MaxGPUModels || got.Invalid != "" && len(got.GPU.Models) > 0 {
			t.Errorf("%d models: %s", len(got.GPU.Models), got.Invalid)
		}
		if len(got.Invalid) > mostTold {
			t.Errorf("%d bytes are told", len(got.Invalid))
		}
	})
}

// FuzzTerms reads any value under the keys about time, users and eviction. A time is above 0, or told to be wrong.
func FuzzTerms(f *testing.F) {
	f.Add("90m", "true", "ada", "rack", "4@rack", "3")
	f.Add("-1s", "maybe", "", "kubernetes.io/hostname", "@", "1000001")
	f.Add("9999999h", "surplus", "system:serviceaccount:a:b", "", "0@x", "+1")
	f.Fuzz(func(t *testing.T, run, preemptible, user, level, segment, members string) {
		p := waiting()
		for key, value := range map[string]string{
			v1alpha1.KeyExpectedRun: run, v1alpha1.KeyMaxRun: run, v1alpha1.KeyCheckpoint: run, v1alpha1.KeyRestartCost: run, v1alpha1.KeyPreemptionDelay: run,
			v1alpha1.KeyPreemptible: preemptible, v1alpha1.KeyUser: user,
			v1alpha1.KeyTopologyRequired: level, v1alpha1.KeySpread: level, v1alpha1.KeySegment: segment, v1alpha1.KeyMin: members, v1alpha1.KeySize: members,
		} {
			p.Annotations[key] = value
		}
		lone := convert.Pod(p, convert.Options{})
		p.Annotations[v1alpha1.KeyGang] = "g"
		gang := convert.NativeGang([]*corev1.Pod{p}, nil, nil)
		for _, terms := range []engine.Terms{lone.Terms, gang.Terms} {
			if min(terms.Expected, terms.Max, terms.Checkpoint, terms.Restart, terms.Delay) < 0 {
				t.Errorf("%+v", terms)
			}
		}
		if d, err := time.ParseDuration(strings.TrimSpace(run)); strings.TrimSpace(run) != "" && (err != nil || d <= 0) && (lone.Invalid == "" || gang.Invalid == "") {
			t.Errorf("%q passes", run)
		}
		if len(lone.User) > convert.MaxNameBytes+1 || len(lone.Invalid)+len(gang.Invalid) > mostTold {
			t.Errorf("user %d bytes, told %d and %d", len(lone.User), len(lone.Invalid), len(gang.Invalid))
		}
		if gang.Min < 0 || gang.Min > convert.MaxGangSize || gang.Layout.Segment < 0 || gang.Layout.Segment > convert.MaxGangSize {
			t.Errorf("%+v", gang.Group)
		}
	})
}

// FuzzSurge reads what any pod says of its move; what is read is written the same again.
func FuzzSurge(f *testing.F) {
	f.Add(convert.Surge{Set: "s", UID: "u", Hash: "h", To: "n", For: "team/x", There: 2, Until: limitNow}.String())
	f.Add(`{"set":"s","uid":"u","hash":"h","to":"n","there":-1,"until":"0001-01-01T00:00:00Z"}`)
	f.Add(`{"set":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		p := waiting()
		p.Annotations[v1alpha1.KeySurge] = text
		s, ok := convert.SurgeOf(p)
		if !ok {
			return
		}
		if s.Set == "" || s.UID == "" || s.Hash == "" || s.To == "" || len(text) > convert.MaxValueBytes {
			t.Errorf("%q passes as %+v", text, s)
		}
		if _, err := json.Marshal(s.Until); err != nil {
			return // a year that cannot be written
		}
		p.Annotations[v1alpha1.KeySurge] = s.String()
		if again, ok := convert.SurgeOf(p); ok && (again.Set != s.Set || again.To != s.To || again.There != s.There || !again.Until.Equal(s.Until)) {
			t.Errorf("%+v is read again as %+v", s, again)
		}
	})
}

// FuzzQueue reads any Queue. What is made of it is bounded, and amounts are within range.
func FuzzQueue(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"q"},"spec":{"parent":"up","weight":3,"resources":[{"name":"nvidia.com/gpu","quota":"8","limit":"16","lend":"4","userLimit":"2"},{"name":"nvidia.com/gpu","gpuModel":"NVIDIA-H100-80GB-HBM3","quota":"1e40"}]}}`,
		`{"metadata":{"name":"q"},"spec":{"budgets":[{"resource":"cpu","hours":"-5","period":"168h","from":"2026-01-01T00:00:00Z"}],"namespaceSelector":{"matchExpressions":[{"key":"team","operator":"In","values":["a"]}]}}}`,
		`{"metadata":{"name":"q"},"spec":{"bookings":[{"name":"b","from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","nodes":3,"nodeSelector":{"a":"b"}}],"minRunTime":"5m"}}`,
	} {
		f.Add([]byte(seed))
	}
	nodes := []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q v1alpha1.BerthQueue
		if json.Unmarshal(data, &q) != nil {
			return
		}
		got := convert.Queue(&q)
		for _, list := range []engine.Resources{got.Quota, got.Limits, got.Lend, got.UserLimits} {
			if len(list) > convert.MaxQueueResources {
				t.Errorf("%d amounts", len(list))
			}
			for _, a := range list {
				if a.Value < 0 || a.Value > 1<<50 {
					t.Errorf("%+v", a)
				}
			}
		}
		for _, b := range got.Budgets {
			if b.Seconds < 0 {
				t.Errorf("%+v", b)
			}
		}
		open, err := convert.OpenTo(&q)
		over := convert.QueueOverLimits(&q.Spec)
		if err != nil && open.Matches(nil) || len(over) > 0 && err == nil {
			t.Errorf("open although %v: %v", err, over)
		}
		for _, b := range convert.Bookings(&q, nodes, func(string) []string { return []string{"n2", "gone"} }) {
			if len(b.Nodes) > len(nodes) {
				t.Errorf("%+v", b)
			}
		}
	})
}

// FuzzNode reads any node. What is made of it is bounded, and the engine takes it.
func FuzzNode(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8"}},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},"status":{"allocatable":{"nvidia.com/gpu":"8","cpu":"-3","memory":"1e40"},"declaredFeatures":["F"]}}`,
		`{"metadata":{"name":"n","labels":{"nvidia.com/gpu.product":"A100-MIG-1g","nvidia.com/gpu.replicas":"4"}},"status":{"allocatable":{"nvidia.com/gpu":"100000"},"images":[{"names":["b:1","a:1","b:1",""],"sizeBytes":99000000},{"sizeBytes":-1,"names":["c"]}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var n corev1.Node
		if json.Unmarshal(data, &n) != nil || n.Name == "" {
			return
		}
		got := convert.Node(&n, convert.Options{})
		if len(got.Devices) > convert.MaxNodeGPUs || len(got.Labels) > convert.MaxNodeLabels || len(got.Taints) > convert.MaxNodeTaints || len(got.Allocatable) > convert.MaxNodeResources || len(got.Images) > convert.MaxNodeImages {
			t.Errorf("%d devices, %d labels, %d taints, %d resources", len(got.Devices), len(got.Labels), len(got.Taints), len(got.Allocatable))
		}
		for _, r := range rejected(engine.Change{Node: &got}) {
			if !strings.Contains(r.Reason, "without a name") { // a resource
				t.Errorf("it is rejected: %s", r.Reason)
			}
		}
	})
}
