package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tally counts what was compared.
type tally struct {
	pods     int
	pairs    int            // of a pod and a node
	feasible int            // pairs
	refused  map[string]int // pairs, by the first filter that refused
}

// filters are those of the stock scheduler that Berth has rules for.
var filters = []string{
	"NodeAffinity", "NodeDeclaredFeatures", "NodePorts", "NodeResourcesFit", "NodeUnschedulable", preFilter, "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
}

func (y *tally) note(by string) {
	y.pairs++
	if by == "" {
		y.feasible++
		return
	}
	if y.refused == nil {
		y.refused = make(map[string]int)
	}
	y.refused[by]++
}

func (y *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods, %d pairs of a pod and a node, %d %% of them feasible; refused first by", y.pods, y.pairs, 100*y.feasible/max(1, y.pairs))
	for i, name := range sortedKeys(y.refused) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s %d", name, y.refused[name])
	}
	return b.String()
}

// check fails where the pairs compared say too little: one in 500 must be refused by each filter.
func (y *tally) check(t *testing.T) {
	if y.pairs < 5000 {
		return // too few for shares to mean anything
	}
	if share := 100 * y.feasible / y.pairs; share < 35 || share > 65 {
		t.Errorf("%d %% of the pairs are feasible: the generators are out of balance", share)
	}
	for _, name := range filters {
		if y.refused[name] < y.pairs/500 {
			t.Errorf("%s refused %d of %d pairs: its rule is hardly compared", name, y.refused[name], y.pairs)
		}
	}
	for name := range y.refused {
		if !slices.Contains(filters, name) {
			t.Errorf("%s refused pairs: it is not among the filters that are compared", name)
		}
	}
}
