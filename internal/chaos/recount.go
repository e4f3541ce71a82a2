package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/record"
)

// inside is who leads when it is the scheduler in the cluster's process.
const inside = "berth-up"

// recount finds what the running scheduler believes and is not so. Its decision log gives its state as it is now,
// with all it was told since it started, in the order in which it was told; and the plans made from it again must
// be the ones it made. Only the scheduler inside keeps a log where we can read it.
func (w *world) recount(l *look) []finding {
	if l.leader(one) != inside {
		return nil
	}
	w.tally.count("accounts compared with a recount")
	log, err := record.Open(w.cluster.dir.Decisions())
	if err != nil {
		return []finding{{"decision log", one, err.Error()}}
	}
	c, err := log.At(time.Now())
	if err != nil {
		return []finding{{"decision log", one, err.Error()}}
	}
	var out []finding
	believed, counted := accountsOf(c.State), accountsOf(l.states[0])
	for _, key := range slices.Sorted(maps.Keys(union(believed, counted))) {
		if believed[key] != counted[key] {
			out = append(out, finding{"accounts differ", key, fmt.Sprintf("believed %s, counted %s", believed[key], counted[key])})
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
