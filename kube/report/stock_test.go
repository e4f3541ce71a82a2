package report

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

func TestStockClaims(t *testing.T) {
	rows := func(rows ...why.Row) []why.Certificate {
		return []why.Certificate{{Need: 1, Domains: []why.Domain{{Rows: rows}}}}
	}
	none := why.Row{Nodes: 7, Removed: []why.Clause{{Kind: why.ByDevices, Detail: "1 gpu", Nodes: 7}}}
	held := why.Row{Nodes: 1, Removed: []why.Clause{{Kind: why.ByHeld, Detail: "1 gpu", Nodes: 1}}}
	tainted := why.Row{Nodes: 1, Removed: []why.Clause{{Kind: why.ByDevices, Detail: "1 gpu", Nodes: 1}, {Kind: why.ByTaint, Nodes: 1}}}
	short := none
	short.Short = []why.Short{{Resource: "cpu", Nodes: 1, By: 1}}
	const end = " preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling."
	for _, c := range []struct {
		name, gang string
		certs      []why.Certificate
		invalid    int
		want       string
	}{
		{"no devices", "ns/p", rows(none), 0, "0/7 nodes are available: 7 cannot allocate all claims." + end},
		{"some invalid", "ns/p", rows(none), 2, "0/7 nodes are available: 2 invalid resource pools were encountered, 5 cannot allocate all claims." + end},
		{"all invalid", "ns/p", rows(none), 9, "0/7 nodes are available: 7 invalid resource pools were encountered." + end},
		{"a gang", "ns/podgroup/g", rows(none), 0, ""},
		{"held by others", "ns/p", rows(none, held), 0, ""},
		{"a taint as well", "ns/p", rows(none, tainted), 0, ""},
		{"too little CPU as well", "ns/p", rows(short), 0, ""},
	} {
		w := &engine.Waiting{Gang: c.gang, Verdict: why.Impossible, Gates: []why.Gate{{Cause: why.NoMatchingNode}}}
		got := StockClaims(w, c.certs, c.invalid)
		if got != c.want || UnmetClaims(w, c.certs) != (c.want != "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestClaimsAreInTheCause(t *testing.T) {
	certs := []why.Certificate{{Need: 1, Domains: []why.Domain{{Rows: []why.Row{{Nodes: 2, Removed: []why.Clause{{Kind: why.ByDevices, Detail: "one/gpu", Nodes: 2}}}}}}}}
	w := &engine.Waiting{Gang: "ns/p", Cause: why.NoMatchingNode, Verdict: why.Impossible, Gates: []why.Gate{{Cause: why.NoMatchingNode, Need: 1}}}
	p := OfWaiting(w, certs, time.Time{}, func(s string) string { return s })
	if got, want := p.Text(), `{"cause":"no-matching-node","verdict":"impossible","gates":[{"cause":"no-matching-node","need":1,"claims":["one/gpu"]}]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestStockGroup(t *testing.T) {
	want := "pod group is unschedulable, minCount (2) cannot be satisfied: 1 resourceclaim not available on the node of every pod that has it; needs 2 pods"
	if got := StockGroup(2, 1, "needs 2 pods"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
