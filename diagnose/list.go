package diagnose

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/check/l1"
	"github.com/berth-dev/berth/diagnose/check/l2"
	"github.com/berth-dev/berth/diagnose/check/l3"
	"github.com/berth-dev/berth/diagnose/check/l4"
)

// Checks returns all checks: by stage, rank and cause.
func Checks() []*check.Check {
	return slices.SortedFunc(slices.Values(slices.Concat(l1.Checks, l2.Checks, l3.Checks, l4.Checks)), func(a, b *check.Check) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Cause, b.Cause))
	})
}
