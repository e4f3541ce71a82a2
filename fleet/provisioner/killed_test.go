package provisioner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// never holds what is never so, whoever was killed: more machines for what waits than it needs, two machines of one number, or more
// NodeClaims than machines are needed.
func (x *stage) never(need int, what string) {
	x.t.Helper()
	if list := x.serving(); len(list) > need {
		x.t.Fatalf("%s: %d machines for a need of %d: %v", what, len(list), need, list)
	}
	index := make(map[int32]string)
	for _, m := range x.machines() {
		if other := index[m.Spec.Index]; other != "" {
			x.t.Fatalf("%s: %s and %s have number %d", what, other, m.Name, m.Spec.Index)
		}
		index[m.Spec.Index] = m.Name
	}
	claims := 0
	for _, c := range x.claims() {
		if c.DeletionTimestamp == nil {
			claims++
		}
	}
	if claims > need {
		x.t.Fatalf("%s: %d NodeClaims for a need of %d", what, claims, need)
	}
}

// run has the gang start and end, and all machines be given back. stale has local copies lag behind, as r says.
func (x *stage) run(r *rand.Rand, need int, what string) {
	x.t.Helper()
	for turn := 0; x.waiting() > 0; turn++ {
		if turn > 500 {
			x.t.Fatalf("%s: %d of %d pods wait: machines %+v", what, x.waiting(), need, x.machines())
		}
		x.turn(r)
		x.never(need, what)
	}
	x.end()
	for turn := 0; len(x.machines())+len(x.claims())+len(nodesOf(x.server)) > 0; turn++ {
		if turn > 500 {
			x.t.Fatalf("%s: forgotten: machines %+v, claims %+v, nodes %d", what, x.machines(), x.claims(), len(nodesOf(x.server)))
		}
		x.turn(r)
	}
	x.step(nil)
	if x.stock["a"]+x.stock["b"] != 8 {
		x.t.Fatalf("%s: the provider has %v of 8 machines, and none is in use", what, x.stock)
	}
}

func (x *stage) turn(r *rand.Rand) {
	x.t.Helper()
	if r == nil {
		x.watch(true, true)
	} else {
		x.watch(r.IntN(4) > 0, r.IntN(4) > 0)
	}
	x.look()
	x.step(r)
}

// everywhere runs the story once for each of its requests, before and after which the controller is killed.
func everywhere(t *testing.T, story func(t *testing.T, x *stage, what string), start func(t *testing.T) *stage) {
	step := 1
	if testing.Short() {
		step = 5
	}
	for _, after := range []bool{false, true} {
		for stop := 1; ; stop += step {
			x := start(t)
			n := 0
			x.die = func(write bool) (bool, bool) {
				if !write {
					return false, false
				}
				n++
				return n == stop && !after, n == stop && after
			}
			story(t, x, fmt.Sprintf("killed at write %d, after it: %t", stop, after))
			if x.kills == 0 {
				if stop < 8 {
					t.Errorf("only %d writes", stop-1)
				}
				break
			}
		}
	}
}

func kinds(t *testing.T, run func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{Karpenter, Autoscaler} {
		t.Run(string(kind), func(t *testing.T) { run(t, kind) })
	}
}

// TestKilledAtEachWrite kills who launches at each of its writes, before the write and after it. The first zone has too few machines.
func TestKilledAtEachWrite(t *testing.T) {
	kinds(t, func(t *testing.T, kind Kind) {
		everywhere(t, func(t *testing.T, x *stage, what string) {
			x.submit("train", 3)
			x.run(nil, 3, what)
		}, func(t *testing.T) *stage { return newStage(t, kind, map[string]int{"a": 1, "b": 7}, nil) })
	})
}

// TestKilledWhileWorkComes has a second gang come as soon as the controller is dead: what was about to leave serves it, or leaves, and
// nothing is in between.
func TestKilledWhileWorkComes(t *testing.T) {
	kinds(t, func(t *testing.T, kind Kind) {
		everywhere(t, func(t *testing.T, x *stage, what string) {
			x.submit("first", 3)
			for turn := 0; x.waiting() > 0 && turn < 500; turn++ {
				x.turn(nil)
			}
			x.end()
			for turn := 0; x.kills == 0 && len(x.machines()) > 0 && turn < 500; turn++ {
				x.turn(nil)
			}
			x.submit("second", 3)
			x.step(nil) // while nobody is there
			have, made := len(x.serving()), 0
			x.seen = func(verb, key string) {
				if verb == "create" && strings.HasPrefix(key, "machines/") {
					made++
				}
			}
			x.run(nil, 3, what)
			if made > 3-have {
				t.Errorf("%s: %d machines launched for a need of 3 while %d were there", what, made, have)
			}
		}, func(t *testing.T) *stage { return newStage(t, kind, map[string]int{"a": 4, "b": 4}, nil) })
	})
}

// TestKilledAtAnyMoment kills who launches 1,000 times, before or after any of its requests, while gangs come and go, answers are late
// and the local copies of nodes and pods lag behind.
func TestKilledAtAnyMoment(t *testing.T) {
	kinds(t, func(t *testing.T, kind Kind) {
		r := rand.New(rand.NewPCG(20, 1))
		x := newStage(t, kind, map[string]int{"a": 2, "b": 6}, nil)
		for gang := 0; x.kills < 1000; gang++ {
			at, after := 0, false
			x.die = func(bool) (bool, bool) {
				if at--; at >= 0 {
					return false, false
				}
				at, after = r.IntN(40), r.IntN(2) == 0
				return !after, after
			}
			at = r.IntN(40)
			need := 1 + r.IntN(4)
			x.submit(fmt.Sprintf("g%d", gang), need)
			x.run(r, need, fmt.Sprintf("gang %d, %d kills", gang, x.kills))
		}
	})
}

// request asks for room for so many pods of 8 GPUs, all or none, and submits them.
func (x *stage) request(name string, pods int) {
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	template.Template.Spec = gpuPod("", 8).Spec
	put(x.server, "podtemplates", template)
	put(x.server, "provisioningrequests", map[string]any{
		"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": map[string]any{"namespace": "default", "name": name},
		"spec": map[string]any{"provisioningClassName": bestEffortAtomic, "podSets": []any{map[string]any{"count": pods, "podTemplateRef": map[string]any{"name": name}}}},
	})
}

// consume submits the pods of a request, as their scheduler does once it is provisioned.
func (x *stage) consume(name string, pods int) {
	x.submit(name, pods)
	for _, p := range podsOf(x.server) {
		p.Annotations = map[string]string{consumeKey: name}
		put(x.server, "pods", &p)
	}
}

// TestRequestsKilled kills the autoscaler at each of its writes while it answers a ProvisioningRequest of all or none. The first zone has
// too few machines. It is not said to be provisioned before its machines are there.
func TestRequestsKilled(t *testing.T) {
	everywhere(t, func(t *testing.T, x *stage, what string) {
		x.request("train", 3)
		for turn := 0; ; turn++ {
			if turn > 500 {
				t.Fatalf("%s: %+v", what, all[provisioningRequest](x.server, "provisioningrequests"))
			}
			x.turn(nil)
			x.never(3, what)
			r := all[provisioningRequest](x.server, "provisioningrequests")[0]
			if !r.is(condProvisioned) {
				continue
			}
			given := 0
			for _, m := range x.machines() {
				if m.Status.Phase == v1alpha1.MachineLaunched {
					given++
				}
			}
			if given != 3 {
				t.Fatalf("%s: provisioned with %d machines of 3", what, given)
			}
			break
		}
		x.consume("train", 3)
		for turn := 0; x.waiting() > 0; turn++ {
			if turn > 500 {
				t.Fatalf("%s: %d pods wait", what, x.waiting())
			}
			x.turn(nil)
			x.never(3, what)
		}
		delete(x.objects, "provisioningrequests/default/train")
		x.run(nil, 3, what)
	}, func(t *testing.T) *stage { return newStage(t, Autoscaler, map[string]int{"a": 2, "b": 6}, nil) })
}
