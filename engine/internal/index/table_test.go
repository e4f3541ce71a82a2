package index

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/why"
)

// drawRows draws the rows of a bucket: of each class one or none.
func drawRows(t *rapid.T) *bucketRows {
	out := &bucketRows{}
	for class := range 6 {
		if !rapid.Bool().Draw(t, "has class") {
			continue
		}
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		row := why.Row{Class: class, Nodes: nodes, Fits: rapid.Int64Range(0, 2).Draw(t, "fits"), Example: fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "example"))}
		for _, kind := range []why.ClauseKind{why.ByTaint, why.ByCordon} {
			if rapid.Bool().Draw(t, "clause") {
				noteClause(&row, why.Clause{Kind: kind, Nodes: nodes})
			}
		}
		for _, resource := range []string{"cpu", gpu} {
			if rapid.Bool().Draw(t, "short") {
				noteShort(&row, why.Short{Resource: resource, Nodes: nodes, By: rapid.Int64Range(1, 3).Draw(t, "by")})
			}
		}
		sortClauses(row.Removed)
		sortShorts(row.Short)
		out.rows = append(out.rows, row)
	}
	out.tally = tally{ifEvicted: rapid.Int64Range(0, 3).Draw(t, "if evicted"), largest: rapid.Int64Range(0, 3).Draw(t, "largest")}
	return out
}

// A sum that followed its rows is what adding all of them up gives, and sums that were handed out stay as they were:
// with parts and without, whatever came, went or stayed as it was.
func TestSumsFollowTheirRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &Index{}
		rows := make([]*bucketRows, rapid.SampledFrom([]int{1, 2, 5, fewRows, fewRows + 1, 50}).Draw(t, "buckets"))
		// Most buckets are empty at first, so that a class can be in one alone.
		for i := range rows {
			rows[i] = &bucketRows{}
		}
		var s sum
		var given []*bucketRows
		var told [][]why.Row
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				rows[rapid.IntRange(0, len(rows)-1).Draw(t, "bucket")] = drawRows(t)
			}
			x.addTo(&s, rows)
			want := (&counting{}).mergeAll(rows)
			if s.total.tally != want.tally || len(s.total.rows)+len(want.rows) > 0 && !reflect.DeepEqual(s.total.rows, want.rows) {
				t.Fatalf("tally %v, not %v; - added up, + kept: %s", s.total.tally, want.tally, cmp.Diff(want.rows, s.total.rows))
			}
			given, told = append(given, s.total), append(told, cloneRows(s.total.rows))
		}
		for i := range given {
			if !reflect.DeepEqual(cloneRows(given[i].rows), told[i]) {
				t.Fatalf("sum %d changed after it was given: %s", i, cmp.Diff(told[i], given[i].rows))
			}
		}
	})
}

// cloneRows copies rows with their lists.
func cloneRows(rows []why.Row) []why.Row {
	out := append([]why.Row{}, rows...)
	for i := range out {
		out[i].Removed, out[i].Short = append([]why.Clause(nil), out[i].Removed...), append([]why.Short(nil), out[i].Short...)
	}
	return out
}
