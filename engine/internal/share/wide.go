package share

import (
	"cmp"
	"math/bits"
)

// Products of two int64 take 128 bits. All numbers here are not negative.

// compareProducts compares a*b with c*d, and so the quotients a/d and c/b. It returns -1, 0 or 1.
func compareProducts(a, b, c, d int64) int {
	xh, xl := bits.Mul64(uint64(a), uint64(b))
	yh, yl := bits.Mul64(uint64(c), uint64(d))
	if o := cmp.Compare(xh, yh); o != 0 {
		return o
	}
	return cmp.Compare(xl, yl)
}

// mulDivMod returns a*b/c, rounded down, and the rest, below c. The quotient must fit into 64 bits,
// or it panics: callers multiply with a fraction of at most one, or with a part of a bounded total.
func mulDivMod(a, b, c int64) (quotient, rest int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, m := bits.Div64(hi, lo, uint64(c))
	return int64(q), int64(m)
}

// partUp is the amount as part of the total, rounded up, and at most ample. Rounding up keeps a
// need of one unit of a huge total from vanishing.
func partUp(amount, total int64) int64 {
	if amount <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), one)
	// The quotient would not fit into 64 bits, and is far beyond ample.
	if hi >= uint64(total) {
		return ample
	}
	q, m := bits.Div64(hi, lo, uint64(total))
	if m > 0 {
		q++
	}
	return int64(min(q, ample))
}

// partDown is the amount, which is not above the total, as part of it, rounded down. What there is
// must not seem more than it is.
func partDown(amount, total int64) int64 {
	if amount <= 0 || total <= 0 {
		return 0
	}
	q, _ := mulDivMod(amount, one, total)
	return q
}

// units is the inverse: whole units, and the rest in parts of a unit, to the nearest. Adding half
// of a fine part before dividing is what rounds to the nearest, also across a whole unit.
func units(part, total int64) (whole, over int64) {
	hi, lo := bits.Mul64(uint64(part), uint64(total))
	lo, carry := bits.Add64(lo, one/fine/2, 0)
	hi += carry
	q, m := bits.Div64(hi, lo, one)
	return int64(q), int64(m / (one / fine))
}
