package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// FuzzApply feeds a state whatever can be read as changes. Nothing may make it panic, plan differently
// when loaded again, or plan differently when told in reverse.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		`[]`,
		`[{"node":{"name":"n0","version":1,"allocatable":{"nvidia.com/gpu":8,"pods":9}}},{"pod":{"key":"p","version":2,"requests":{"nvidia.com/gpu":1}}}]`,
		`[{"gang":{"key":"g","version":1,"min":2,"layout":{"required":"rack","segment":2,"segmentLevel":"node"}}},{"pod":{"key":"p","gang":"g","rank":-1}}]`,
		`[{"gang":{"key":"g","groups":[{"name":"x","parent":"y"},{"name":"y","parent":"x"}]}},{"pod":{"key":"p","gang":"g","subgroup":"x"}}]`,
		`[{"pod":{"key":"p","node":"n9","devices":["d","d"],"requests":{"nvidia.com/gpu":-1}}},{"gone":{"kind":"pod","key":"p","version":18446744073709551615}}]`,
		`[{"assumption":{"pod":"p","version":1,"node":"n0","until":"2026-11-15T12:00:01Z"}},{"settled":7},{"pod":{"key":"p","version":3}}]`,
		`[{"node":{"name":"n0","devices":[{"id":"d"}]}},{"node":{"name":"n1","devices":[{"id":"d"}]}},{"gone":{"kind":"node","key":"n0"}}]`,
		`[{"hold":{"gang":"g","version":1,"node":"n0","requests":{"cpu":9223372036854775807},"until":"0001-01-01T00:00:00Z"}},{}]`,
	} {
		f.Add([]byte(seed))
	}
	for seed := range 4 {
		history, err := json.Marshal(rapid.Custom(anyHistory).Example(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		history := readable(data)
		cfg := engine.Config{Levels: levels, SearchBudget: 200}
		s := lived(cfg, history)
		same(t, "loaded from its dump", s, engine.Load(s.Dump(), cfg))
		if keepsPromises(history) {
			same(t, "told in reverse", s, lived(cfg, reversed(history)))
		}
	})
}

// readable is the changes that data holds as a JSON list, up to the first that is none; few enough for a
// quick answer.
func readable(data []byte) (history []engine.Change) {
	var raw []json.RawMessage
	if json.Unmarshal(data, &raw) != nil {
		return nil
	}
	for _, r := range raw[:min(len(raw), 64)] {
		var c engine.Change
		if json.Unmarshal(r, &c) != nil {
			return history
		}
		history = append(history, c)
	}
	return history
}

// keepsPromises says whether the order of the history may be changed: Settled promises something about
// what comes after it.
func keepsPromises(history []engine.Change) bool {
	for _, c := range history {
		if c.Settled > 0 {
			return false
		}
	}
	return true
}

func reversed(history []engine.Change) (out []engine.Change) {
	for i := range history {
		out = append(out, history[len(history)-1-i])
	}
	return out
}

// FuzzPlan lets the fuzzer steer the generators through a life of plans, carried out well and badly.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 4096))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		cfg := anyConfig(t)
		h := &hands{lived(cfg, anyHistory(t)), noon}
		for range 1 + upTo(t, 3) {
			h.carryOut(t, h.state.Plan(h.now))
			h.moveOn(t)
		}
		same(t, "loaded from its dump", h.state, engine.Load(h.state.Dump(), cfg))
		h.state.Plan(h.now.Add(time.Hour))
	}))
}
