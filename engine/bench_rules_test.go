package engine_test

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Rules between pods, on the cluster of the other benchmarks. The bars, at 5,000 nodes: one pod with required anti-affinity
// against 100 replicas in 50 us, a service of 100 replicas over racks in 20 ms, a gang of 64 whose members are apart in 20 ms, a
// proof that a spread cannot be met in 500 us.

// service is a small pod with the label app of that name.
func (d *bed) service(key, app string, spec engine.Spec) engine.Change {
	c := d.pod(key, spec)
	c.Pod.Labels = map[string]string{"app": app}
	return c
}

// small is a pod that takes next to nothing and may be on any node.
func small() engine.Spec {
	return engine.Spec{Requests: engine.Resources{{Resource: engine.CPU, Value: 10}}, Tolerations: []engine.Toleration{{Op: "Exists"}}}
}

func appTerm(app, topology string) engine.PodTerm {
	return engine.PodTerm{Topology: topology, Namespaces: []string{"bench"}, Labels: []engine.Requirement{{Key: "app", Op: engine.In, Values: []string{app}}}}
}

func appSpread(app, topology string) engine.Spread {
	return engine.Spread{Topology: topology, Namespace: "bench", Labels: appTerm(app, topology).Labels, MaxSkew: 1}
}

// settled binds 100 replicas of the spec, one on every n-th node of the first so many, over and over.
func (d *bed) settled(app string, every, among int, spec engine.Spec) {
	var pods []engine.Change
	for i := range 100 {
		c := d.service(fmt.Sprintf("bench/%s-%d", app, i), app, spec)
		c.Pod.Node = d.snapshot.Nodes[i*every%among].Name
		pods = append(pods, c)
	}
	d.apply(pods)
}

// BenchmarkEngineRulesPlaceApart places one more of 100 replicas that are to be on different nodes.
func BenchmarkEngineRulesPlaceApart(b *testing.B) {
	questions(b, func(d *bed) question {
		spec := small()
		spec.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{appTerm("db", hostLabel)}}
		d.settled("db", 4, len(d.snapshot.Nodes), spec)
		return question{
			ask:   func(int) []engine.Change { return []engine.Change{d.service("bench/db", "db", spec)} },
			check: d.started(1, 1),
		}
	})
}

// BenchmarkEngineRulesPlaceApartRacks is the same with different racks, half of which the replicas close, or 100.
func BenchmarkEngineRulesPlaceApartRacks(b *testing.B) {
	apartRacks(b, func(d *bed) (among int, check func(engine.Plan)) { return len(d.snapshot.Nodes) / 2, d.started(1, 1) })
}

// BenchmarkEngineRulesProveApartRacks proves that one more has no rack, up to 5,000 nodes; of 50,000 the replicas cannot close all racks.
func BenchmarkEngineRulesProveApartRacks(b *testing.B) {
	apartRacks(b, func(d *bed) (among int, check func(engine.Plan)) {
		if nodes := len(d.snapshot.Nodes); nodes <= 100*rackSize {
			return nodes, d.refused(why.PodRules)
		}
		d.Skip("more racks than replicas")
		return 0, nil
	})
}

// apartRacks asks for one more of 100 replicas that are to be in different racks and run in those of the first so many nodes.
func apartRacks(b *testing.B, of func(*bed) (among int, check func(engine.Plan))) {
	questions(b, func(d *bed) question {
		spec := small()
		spec.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{appTerm("db", rackLabel)}}
		among, check := of(d)
		d.settled("db", rackSize, among, spec)
		return question{ask: func(int) []engine.Change { return []engine.Change{d.service("bench/db", "db", spec)} }, check: check}
	})
}

// BenchmarkEngineRulesService100 places a new service of 100 replicas that is spread over racks.
func BenchmarkEngineRulesService100(b *testing.B) {
	questions(b, func(d *bed) question {
		spec := small()
		spec.PodRules = &engine.PodRules{Spread: []engine.Spread{appSpread("web", rackLabel)}}
		return question{
			ask: func(int) (pods []engine.Change) {
				for i := range 100 {
					pods = append(pods, d.service(fmt.Sprintf("bench/web-%d", i), "web", spec))
				}
				return pods
			},
			check: d.started(100, 100),
		}
	})
}

// BenchmarkEngineRulesGang64 places a gang of 64 whose members are to be on different nodes.
func BenchmarkEngineRulesGang64(b *testing.B) {
	questions(b, func(d *bed) question {
		spec := anywhere(1)
		spec.PodRules = &engine.PodRules{PodAntiAffinity: []engine.PodTerm{appTerm("ring", hostLabel)}}
		return question{
			ask: func(int) []engine.Change {
				changes := d.gang("bench/ring", 64, spec, engine.Layout{})
				for _, c := range changes {
					if c.Pod != nil {
						c.Pod.Labels = map[string]string{"app": "ring"}
					}
				}
				return changes
			},
			check: d.started(1, 64),
		}
	})
}

// BenchmarkEngineRulesProveSpread proves that one more replica cannot be placed: every rack has as many as it may, but for one
// that the replicas are kept out of and that counts all the same.
func BenchmarkEngineRulesProveSpread(b *testing.B) {
	questions(b, func(d *bed) question {
		spec := small()
		c := appSpread("web", rackLabel)
		c.AnyNode = true
		last := d.snapshot.Nodes[len(d.snapshot.Nodes)-1].Labels[rackLabel]
		spec.PodRules = &engine.PodRules{Spread: []engine.Spread{c}}
		spec.Affinity = []engine.Term{{Labels: []engine.Requirement{{Key: rackLabel, Op: engine.NotIn, Values: []string{last}}}}}
		var pods []engine.Change
		for i := 0; i < len(d.snapshot.Nodes); i += rackSize {
			p := d.service(fmt.Sprintf("bench/web-%d", i), "web", spec)
			if p.Pod.Node = d.snapshot.Nodes[i].Name; d.snapshot.Nodes[i].Labels[rackLabel] != last {
				pods = append(pods, p)
			}
		}
		d.apply(pods)
		return question{
			ask:   func(int) []engine.Change { return []engine.Change{d.service("bench/web", "web", spec)} },
			check: d.refused(why.PodRules),
		}
	})
}
