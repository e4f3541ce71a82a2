package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// inside is who leads when it is the scheduler in the cluster's process.
const inside = "berth-up"

// recount finds what the schedulers that lead believe and is not so. The decision log of one gives its state as it
// is now, with all it was told since it started, in the order in which it was told; and the plans made from it
// again must be the ones it made.
func (w *world) recount(l *look) []finding {
	var out []finding
	for i, name := range []string{one, two} {
		dir := w.logOf(name, l.leader(name))
		if dir == "" {
			continue
		}
		w.tally.count("accounts of " + name + " compared with a recount")
		state, err := recorded(dir)
		if err != nil {
			out = append(out, finding{"decision log", name, err.Error()})
			continue
		}
		out = append(out, compare(name, accountsOf(state), accountsOf(l.states[i]))...)
	}
	return out
}

// logOf is the folder of the leader's decisions, "" where it is nobody's that runs.
func (w *world) logOf(name, leader string) string {
	if name == one && leader == inside {
		return w.cluster.dir.Decisions()
	}
	for i, b := range w.berths {
		if berthNames[i] == name && strings.Contains(leader, fmt.Sprintf("_%d_", b.pid())) {
			return b.decisions
		}
	}
	return ""
}

func recorded(dir string) (*engine.State, error) {
	log, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	c, err := log.At(time.Now())
	return c.State, err
}

func compare(name string, believed, counted map[string]string) []finding {
	var out []finding
	for _, key := range slices.Sorted(maps.Keys(union(believed, counted))) {
		if believed[key] != counted[key] {
			out = append(out, finding{"accounts differ", name + " " + key, fmt.Sprintf("believed %s, counted %s", believed[key], counted[key])})
		}
	}
	return out
}

// leader is who has the lease of the schedulers of that name.
func (l *look) leader(name string) string {
	for i := range l.leases {
		if h := l.leases[i].Spec.HolderIdentity; l.leases[i].Name == name+"-scheduler" && h != nil {
			return *h
		}
	}
	return ""
}

// accountsOf is all that a state holds to be so, by kind and key, and the sums that it keeps.
func accountsOf(s *engine.State) map[string]string {
	d := s.Dump()
	out := map[string]string{"usage": text(s.Report().All)}
	for _, n := range d.Nodes {
		n.Version = 0
		out["node "+n.Name] = text(n)
	}
	for _, p := range d.Pods {
		p.Version = 0
		out["pod "+p.Key] = text(p)
	}
	for _, g := range d.Gangs {
		g.Version = 0
		out["gang "+g.Key] = text(g)
	}
	for _, q := range d.Queues {
		q.Version = 0
		out["queue "+q.Name] = text(q)
	}
	return out
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
