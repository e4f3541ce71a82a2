package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// Of what nobody takes for a long time, only the last of each object is kept, in order.
func TestAnInboxThatNobodyEmptiesStaysSmall(t *testing.T) {
	b := newInbox()
	for i := range 4 * thinFrom {
		b.Put(engine.Change{Node: &engine.Node{Name: fmt.Sprint(i % 100), Version: uint64(i)}})
	}
	b.Put(engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: "7", Version: 4*thinFrom + 1}}, engine.Change{Settled: 9})
	if got := len(b.take()); got > thinFrom+2 {
		t.Errorf("%d changes of 100 nodes", got)
	}
	node := func(name string, version uint64) engine.Change {
		return engine.Change{Node: &engine.Node{Name: name, Version: version}}
	}
	gone := engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: "a", Version: 4}}
	got := thin([]engine.Change{node("a", 1), node("b", 2), {Settled: 1}, node("b", 3), gone, {Settled: 2}})
	if diff := cmp.Diff([]engine.Change{{Settled: 1}, node("b", 3), gone, {Settled: 2}}, got); diff != "" {
		t.Error(diff)
	}
}
