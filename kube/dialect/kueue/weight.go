package kueue

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/kube/dialect"
)

// maxWeight is the largest weight of a BerthQueue, whose weights are whole numbers.
const maxWeight = 65536

// among is the weight of a ClusterQueue or Cohort called name among those of the cohort in, "" for none. A weight is an amount, which may
// be a fraction, and only its proportion to the others of the cohort counts. Where one of them is a fraction or nothing, all are
// multiplied until they are whole: 0.25 and 0.75 are 1 and 3. Nothing is 1, next to a largest weight of about maxWeight.
func (f fairSharing) among(in, kind, name string, w dialect.World, out *dialect.Object) int32 {
	if f.Weight != nil && f.Weight.Sign() < 0 {
		out.Unread = append(out.Unread, "spec.fairSharing.weight (below 0)")
	}
	own := f.billionths()
	if in == "" { // nothing is shared
		return int32(min(max(1, own/billion), maxWeight))
	}
	all := []int64{own}
	if w != nil {
		for _, o := range w.Objects(ClusterQueues, "") {
			if q, ok := o.Value.(*clusterQueue); ok && q.cohort == in && (kind != ClusterQueues || o.Name != name) {
				all = append(all, q.FairSharing.billionths())
			}
		}
		for _, o := range w.Objects(Cohorts, "") {
			if c, ok := o.Value.(*cohort); ok && c.parent == in && (kind != Cohorts || o.Name != name) {
				all = append(all, c.fair.billionths())
			}
		}
	}
	weight, exact := whole(own, all)
	if !exact {
		out.Unread = append(out.Unread, fmt.Sprintf("spec.fairSharing.weight (the largest of its cohort counts as %d, and others in proportion, rounded)", maxWeight))
	}
	return weight
}

const (
	billion = 1_000_000_000
	// mostWeight is beyond what is told apart.
	mostWeight = billion
)

// billionths is the weight in the smallest unit of amounts, 1 where none is said or one below nothing.
func (f fairSharing) billionths() int64 {
	switch w := f.Weight; {
	case w == nil || w.Sign() < 0:
		return billion
	case w.CmpInt64(mostWeight) >= 0:
		return mostWeight * billion
	default:
		return w.ScaledValue(resource.Nano)
	}
}

// whole is the weight own, one of all, as a whole number; exact is false where it was rounded.
func whole(own int64, all []int64) (weight int32, exact bool) {
	var most, unit int64
	written := true // as whole numbers above 0
	for _, n := range all {
		most, unit = max(most, n), divisor(unit, n)
		written = written && n > 0 && n%billion == 0
	}
	switch {
	case most == 0: // all are nothing
		return 1, true
	case written:
		unit = billion
	}
	times := int64(1)
	for _, n := range all {
		if n == 0 { // the others are as large as can be
			times = max(1, maxWeight/(most/unit))
		}
	}
	switch {
	case most/unit <= maxWeight:
		return int32(max(1, own/unit*times)), true
	case own == 0:
		return 1, true
	}
	return int32(max(1, math.Round(float64(own)/float64(most)*maxWeight))), false
}

// divisor is the greatest that divides both.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
