package record

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Each of these plans is another decision, and none may pass for another.
func TestDigestsTellDecisionsApart(t *testing.T) {
	start := func(gang string, kind engine.StartKind, p ...engine.Placement) engine.Plan {
		return engine.Plan{Starts: []engine.Start{{Gang: gang, Kind: kind, Placements: p}}}
	}
	wait := func(gang string, v why.Verdict, c why.Cause) engine.Plan {
		return engine.Plan{Waiting: []engine.Waiting{{Gang: gang, Verdict: v, Cause: c}}}
	}
	at := func(pod, node string, devices ...string) engine.Placement {
		return engine.Placement{Pod: pod, Node: node, Devices: devices}
	}
	plans := []engine.Plan{
		{},
		start("g", engine.Begin, at("p", "n")),
		start("h", engine.Begin, at("p", "n")),
		start("g", engine.Grow, at("p", "n")),
		start("g", engine.Begin, at("q", "n")),
		start("g", engine.Begin, at("p", "m")),
		start("g", engine.Begin, at("pn", "")),
		start("g", engine.Begin, at("p", "n", "d")),
		start("g", engine.Begin, at("p", "n", "d", "e")),
		start("g", engine.Begin, at("p", "n", "de")),
		start("g", engine.Begin, at("p", "n"), at("q", "n")),
		wait("g", why.Blocked, why.GangMissing),
		wait("h", why.Blocked, why.GangMissing),
		wait("g", why.Invalid, why.GangMissing),
		wait("g", why.Blocked, why.QueueMissing),
	}
	seen := map[digest]int{}
	var kept digester // as in a log, one for all
	for i := range plans {
		var fresh digester
		d := fresh.of(&plans[i])
		if again := kept.of(&plans[i]); again != d {
			t.Errorf("plan %d: %x by itself, %x after others", i, d, again)
		}
		if j, ok := seen[d]; ok {
			t.Errorf("plans %d and %d have the same digest", j, i)
		}
		seen[d] = i
	}
}

func TestDigestSurvivesJSON(t *testing.T) {
	for _, want := range []digest{0, basis, ^digest(0)} {
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got digest
		if err := json.Unmarshal(b, &got); err != nil || got != want || len(b) != 18 {
			t.Errorf("%s: got %x, %v, want %x", b, got, err, want)
		}
	}
}
