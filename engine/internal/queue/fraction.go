package queue

import (
	"cmp"
	"math/bits"
)

// Fraction is a number as a quotient, for comparisons without rounding.
type Fraction struct{ Num, Den int64 }

// Less compares two quotients of non-negative numbers. A denominator of 0 is above everything, unless the numerator is 0 too.
func (r Fraction) Less(o Fraction) bool { return r.Compare(o) < 0 }

func (r Fraction) Compare(o Fraction) int {
	if r == o {
		return 0
	}
	if r.Den == 0 || o.Den == 0 {
		return r.rank() - o.rank()
	}
	ah, al := bits.Mul64(uint64(r.Num), uint64(o.Den))
	bh, bl := bits.Mul64(uint64(o.Num), uint64(r.Den))
	return cmp.Or(cmp.Compare(ah, bh), cmp.Compare(al, bl))
}

// rank puts what cannot be divided behind all that can.
func (r Fraction) rank() int {
	if r.Den == 0 && r.Num > 0 {
		return 1
	}
	return 0
}
