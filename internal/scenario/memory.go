package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// memory reads a line that is a piece of the engine's memory; make returns it for a world, before the line's
// attributes are set, and say makes a change of it.
func memory[T any](words []string, table setters[T], make func(*world) T, say func(*T) engine.Change) (func(*world) error, error) {
	edits, err := table.parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		v := make(w)
		for _, set := range edits {
			set(&v, moment{now: w.now})
		}
		w.memory = append(w.memory, say(&v))
		return nil
	}, nil
}

// refuse reads "refuse POD NODE REASON until=+30s".
func refuse(pod string, words []string) (func(*world) error, error) {
	if len(words) != 3 {
		return nil, fmt.Errorf("expected refuse POD NODE REASON until=+30s")
	}
	return memory(words[2:], setters[engine.Refusal]{values: map[string]reader[engine.Refusal]{
		"until": when(func(r *engine.Refusal, t time.Time) { r.Until = t }),
	}}, func(w *world) engine.Refusal {
		return engine.Refusal{Pod: pod, UID: w.pods[pod].UID, Node: words[0], Reason: words[1]}
	}, func(r *engine.Refusal) engine.Change { return engine.Change{Refusal: r} })
}

// hold reads "hold GANG NODE gpus=8 until=+60s".
func (s *Story) hold(gang string, words []string) (func(*world) error, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("expected hold GANG NODE gpus=8 until=+60s")
	}
	return memory(words[1:], setters[engine.Hold]{
		flags:  map[string]func(*engine.Hold, moment){"coming": yes(func(h *engine.Hold) *bool { return &h.Coming })},
		values: map[string]reader[engine.Hold]{"until": when(func(h *engine.Hold, t time.Time) { h.Until = t })},
		other:  resources(&s.Config, func(h *engine.Hold) *engine.Resources { return &h.Requests }),
	}, func(*world) engine.Hold { return engine.Hold{Gang: gang, Node: words[0]} },
		func(h *engine.Hold) engine.Change { return engine.Change{Hold: h} })
}

// eviction reads "eviction POD reclaimed for=team/a to=n1 at=+0s until=+1m refused surge".
func eviction(pod string, words []string) (func(*world) error, error) {
	if len(words) < 1 || strings.Contains(words[0], "=") {
		return nil, fmt.Errorf("expected eviction POD CAUSE for=team/a until=+1m")
	}
	return memory(words[1:], setters[engine.Eviction]{
		flags: map[string]func(*engine.Eviction, moment){
			"refused": yes(func(e *engine.Eviction) *bool { return &e.Refused }),
			"surge":   yes(func(e *engine.Eviction) *bool { return &e.Surge }),
		},
		values: map[string]reader[engine.Eviction]{
			"for":   word(func(e *engine.Eviction, v string) { e.For = v }),
			"to":    word(func(e *engine.Eviction, v string) { e.To = v }),
			"at":    when(func(e *engine.Eviction, t time.Time) { e.At = t }),
			"until": when(func(e *engine.Eviction, t time.Time) { e.Until = t }),
		},
	}, func(w *world) engine.Eviction {
		return engine.Eviction{Pod: pod, UID: w.pods[pod].UID, Cause: engine.EvictionCause(words[0]), At: w.now}
	}, func(e *engine.Eviction) engine.Change { return engine.Change{Eviction: e} })
}

// promise reads "promise GANG start=+1h nodes=n[0-1] since=-1m".
func promise(gang string, words []string) (func(*world) error, error) {
	return memory(words, setters[engine.Promise]{values: map[string]reader[engine.Promise]{
		"since": when(func(p *engine.Promise, t time.Time) { p.Since = t }),
		"start": when(func(p *engine.Promise, t time.Time) { p.Start = t }),
		"nodes": parsed(nameList, func(p *engine.Promise, v []string) { p.Nodes = v }),
	}}, func(w *world) engine.Promise { return engine.Promise{Gang: gang, Since: w.now} },
		func(p *engine.Promise) engine.Change { return engine.Change{Promise: p} })
}

// usage reads "usage QUEUE decayed=3600 spent=100,200 total=7200 at=-1h"; amounts are in GPU-seconds.
func usage(queue string, words []string) (func(*world) error, error) {
	return memory(words, setters[engine.QueueUsage]{values: map[string]reader[engine.QueueUsage]{
		"decayed": number(func(u *engine.QueueUsage, n int) { u.Decayed = int64(n) }),
		"total":   number(func(u *engine.QueueUsage, n int) { u.Total = int64(n) }),
		"at":      when(func(u *engine.QueueUsage, t time.Time) { u.At = t }),
		"spent": parsed(func(text string) (out []int64, err error) {
			for _, part := range strings.Split(text, ",") {
				n, err := whole(part)
				if err != nil {
					return nil, err
				}
				out = append(out, int64(n))
			}
			return out, nil
		}, func(u *engine.QueueUsage, v []int64) { u.Spent = v }),
	}}, func(w *world) engine.QueueUsage { return engine.QueueUsage{Queue: queue, At: w.now} },
		func(u *engine.QueueUsage) engine.Change { return engine.Change{Usage: u} })
}

// degradation reads "degradation GANG since=-1m".
func degradation(gang string, words []string) (func(*world) error, error) {
	return memory(words, setters[engine.Degradation]{values: map[string]reader[engine.Degradation]{
		"since": when(func(l *engine.Degradation, t time.Time) { l.Since = t }),
	}}, func(w *world) engine.Degradation { return engine.Degradation{Gang: gang, Since: w.now} },
		func(l *engine.Degradation) engine.Change { return engine.Change{Degradation: l} })
}

// runTimeEstimate reads "run-time-estimate LIKE count=20 short=30m median=1h long=2h".
func runTimeEstimate(like string, words []string) (func(*world) error, error) {
	return memory(words, setters[engine.RunTimeEstimate]{values: map[string]reader[engine.RunTimeEstimate]{
		"count":  number(func(l *engine.RunTimeEstimate, n int) { l.Count = n }),
		"short":  span(func(l *engine.RunTimeEstimate, d time.Duration) { l.Short = d }),
		"median": span(func(l *engine.RunTimeEstimate, d time.Duration) { l.Median = d }),
		"long":   span(func(l *engine.RunTimeEstimate, d time.Duration) { l.Long = d }),
	}}, func(*world) engine.RunTimeEstimate { return engine.RunTimeEstimate{Like: like} },
		func(l *engine.RunTimeEstimate) engine.Change { return engine.Change{RunTimeEstimate: l} })
}
