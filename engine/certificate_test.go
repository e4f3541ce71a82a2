package engine_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/internal/oracle"
	"github.com/berth-dev/berth/engine/why"
)

// proof is a certificate with the world it speaks of.
type proof struct {
	snap engine.Snapshot // with the starts of the plan that came before
	gang string
	cert why.Certificate
}

// proofs collects every certificate of the plan.
func proofs(snap engine.Snapshot, plan engine.Plan) (out []proof) {
	for _, w := range plan.Waiting {
		for _, g := range w.Gates {
			if g.Certificate >= 0 {
				out = append(out, proof{asSeen(snap, plan, w.Gang), w.Gang, plan.Certificates[g.Certificate]})
			}
		}
	}
	return out
}

// asSeen is the snapshot as it was when the gang had its turn: starts of gangs before it in line are
// assumed. It is for gangs that start whole or not at all; what grows has its turn later.
func asSeen(snap engine.Snapshot, plan engine.Plan, gang string) engine.Snapshot {
	snap.Assumptions = slices.Clone(snap.Assumptions)
	for _, s := range plan.Starts {
		if before(snap, s, gang) {
			for _, x := range s.Placements {
				snap.Assumptions = slices.DeleteFunc(snap.Assumptions, func(a engine.Assumption) bool { return a.Pod == x.Pod })
				snap.Assumptions = append(snap.Assumptions, engine.Assumption{Pod: x.Pod, UID: x.UID, Node: x.Node, Devices: x.Devices, Until: plan.Now.Add(time.Second)})
			}
		}
	}
	return snap
}

// before says whether the start's gang comes before the other in line: repairs, then by priority, age
// and key.
func before(snap engine.Snapshot, s engine.Start, other string) bool {
	a, b := turn(snap, s.Gang), turn(snap, other)
	if running := runs(snap, other); running != (s.Kind == engine.Repair) {
		return s.Kind == engine.Repair
	}
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.Key, b.Key)) < 0
}

// turn is the gang by key, or what it would be for a pod by itself.
func turn(snap engine.Snapshot, key string) engine.Gang {
	for _, g := range snap.Gangs {
		if g.Key == key {
			return g
		}
	}
	for _, p := range snap.Pods {
		if p.Key == key {
			return engine.Gang{Key: key, Priority: p.Priority, Created: p.Created}
		}
	}
	return engine.Gang{Key: key}
}

// runs says whether some member of the gang is bound.
func runs(snap engine.Snapshot, gang string) bool {
	return slices.ContainsFunc(snap.Pods, func(p engine.Pod) bool { return p.Gang == gang && p.Node != "" && !p.Terminating })
}

// Every certificate is true, re-proved from the snapshot alone by code that shares nothing with the
// engine: it protects whoever acts on "impossible".
func TestCertificatesAreTrue(t *testing.T) {
	often(t, 20, func(t *rapid.T) {
		cfg := anyConfig(t)
		snap, _ := anyCase(t, cfg, 6)
		s := engine.Load(snap, cfg)
		for _, p := range proofs(snap, s.Plan(noon)) {
			if err := oracle.Check(p.snap, cfg, noon, p.gang, p.cert); err != nil {
				t.Fatalf("%s: %v\n%s\n%s", p.gang, err, text(t, p.cert), text(t, p.snap))
			}
		}
	})
}

// The same with several gangs in line: a certificate speaks of what the gangs before have left.
func TestCertificatesCountWhatStartedBefore(t *testing.T) {
	often(t, 10, func(t *rapid.T) {
		cfg, snap := anyConfig(t), anyCluster(t)
		cfg.Policy = "" // and no queues: one line, by priority and age
		for _, key := range []string{"gang", "band", "crew"} {
			g, members := anyGang(t, key, 3)
			g.Queue, g.Min, g.MinGroups = "", 0, 0
			for i := range g.Groups {
				g.Groups[i].Min, g.Groups[i].MinGroups = 0, 0
			}
			snap.Gangs, snap.Pods = append(snap.Gangs, g), append(snap.Pods, members...)
		}
		s := engine.Load(snap, cfg)
		plan := s.Plan(noon)
		keeps := func(w engine.Waiting) bool { return w.Cause == why.MakingRoom }
		if len(plan.Promises) > 0 || slices.ContainsFunc(plan.Waiting, keeps) {
			return // a proof may count room that is promised, or is becoming free for others, which the checker does not know
		}
		for _, p := range proofs(s.Dump(), plan) {
			if err := oracle.Check(p.snap, cfg, noon, p.gang, p.cert); err != nil {
				t.Fatalf("%s: %v\n%s\n%s", p.gang, err, text(t, p.cert), text(t, p.snap))
			}
		}
	})
}

// A certificate with one number changed fails the checker: it protects the checker from being blind.
func TestCorruptedCertificatesFail(t *testing.T) {
	often(t, 20, func(t *rapid.T) {
		cfg := anyConfig(t)
		snap, _ := anyCase(t, cfg, 6)
		for _, p := range proofs(snap, engine.Schedule(snap, noon, cfg)) {
			var bad why.Certificate
			if err := json.Unmarshal([]byte(text(t, p.cert)), &bad); err != nil {
				t.Fatal(err)
			}
			what := corrupt(t, &bad)
			if err := oracle.Check(p.snap, cfg, noon, p.gang, bad); err == nil {
				t.Fatalf("%s: passes with %s\n%s", p.gang, what, text(t, bad))
			}
		}
	})
}

// corrupt changes one thing that matters and says what.
func corrupt(t *rapid.T, c *why.Certificate) string {
	d := &c.Domains[upTo(t, len(c.Domains)-1)]
	r := &d.Rows[upTo(t, len(d.Rows)-1)]
	switch what := pick(t, "another need", "another total", "another sum", "another fit", "another count of nodes", "another capacity", "a lower bound", "a clause more", "a row less", "another shortage", "another request"); what {
	case "another need":
		c.Need += 100
		return what
	case "another total":
		c.Total++
		return what
	case "another sum":
		d.Fits++
		return what
	case "another fit":
		r.Fits++
		return what
	case "another count of nodes":
		r.Nodes++
		return what
	case "another capacity":
		c.Classes[r.Class].PerEmpty++
		return what
	case "a lower bound":
		c.IfEvicted = -1
		return what
	case "a clause more":
		r.Removed = append(r.Removed, why.Clause{Kind: "moon", Nodes: 1})
		return what
	case "a row less":
		d.Rows = d.Rows[1:]
		return what
	case "another shortage":
		r.Short = append(r.Short, why.Short{Resource: "moons", Nodes: 1, By: 1})
		return what
	}
	c.Request = append(c.Request, why.Amount{Resource: "moons", Value: 1})
	return "another request"
}
