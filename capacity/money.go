package capacity

import (
	"fmt"
	"math/bits"
	"strings"
)

// Micro is money in millionths of a currency's unit.
type Micro int64

// micros is how many make one.
const micros = 1_000_000

// MaxPrice is the most that an instance may cost for an hour: a billion units. The sum of 9,000 such instances does not fit 63 bits.
const MaxPrice Micro = 1_000_000_000 * micros

// Price is what one GPU costs for an hour.
type Price struct {
	Known    bool // false: nobody said; Micro is 0 then, and counts for nothing
	Micro    Micro
	Currency string // "": not known
}

// ParsePrice reads an amount such as "63.296" exactly: up to nine digits, and up to six after the point.
func ParsePrice(text string) (Micro, error) {
	whole, part, point := strings.Cut(text, ".")
	if whole == "" || len(whole) > 9 || point && (part == "" || len(part) > 6) {
		return 0, fmt.Errorf("%.32q is no amount such as 63.296", text)
	}
	out := Micro(0)
	for _, c := range []byte(whole + part + strings.Repeat("0", 6-len(part))) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%.32q is no amount such as 63.296", text)
		}
		out = out*10 + Micro(c-'0')
	}
	return out, nil
}

// Share is the part of GPU i, from 0, in the price of an instance with n. The parts of all add up to the price exactly:
// what does not divide goes to the later ones.
func (m Micro) Share(i, n int) Micro {
	if n <= 0 || i < 0 || i >= n {
		return 0
	}
	return m*Micro(i+1)/Micro(n) - m*Micro(i)/Micro(n)
}

// Text is the amount with as many digits after the point as it needs, and at least two.
func (m Micro) Text() string {
	sign := ""
	u := uint64(m)
	if m < 0 {
		sign, u = "-", -u
	}
	part := strings.TrimRight(fmt.Sprintf("%06d", u%micros), "0")
	for len(part) < 2 {
		part += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, u/micros, part)
}

// Cents is the amount rounded to hundredths, half away from zero, for people.
func (m Micro) Cents() string {
	const cent = micros / 100
	sign := ""
	u := uint64(m)
	if m < 0 {
		sign, u = "-", -u
	}
	c := (u + cent/2) / cent
	return fmt.Sprintf("%s%d.%02d", sign, c/100, c%100)
}

// mostMicro is what any larger amount counts as: nine trillion units.
const mostMicro Micro = 1<<63 - 1

// Plus is the sum of two amounts, neither below zero.
func (m Micro) Plus(n Micro) Micro {
	if m > mostMicro-n {
		return mostMicro
	}
	return m + n
}

// wide is a sum of amounts that may be larger than one amount, so that what was added can be taken out again exactly.
type wide struct{ hi, lo uint64 }

func (w *wide) add(m Micro) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, uint64(m), 0)
	w.hi += carry
}

// take takes out what was added before.
func (w *wide) take(m Micro) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, uint64(m), 0)
	w.hi -= borrow
}

// micro is the sum as an amount.
func (w wide) micro() Micro {
	if w.hi > 0 {
		return mostMicro
	}
	return Micro(min(w.lo, uint64(mostMicro)))
}

// Amount is money of one currency.
type Amount struct {
	Currency string `json:"currency"`
	Micro    Micro  `json:"micro"`
}

// milliHour is the milliseconds of an hour.
const milliHour = 3_600_000

// over is what a price for an hour comes to over so many milliseconds, and what is left over in millionths times
// milliseconds, below an hour's. Both are not negative. The product has 128 bits.
func over(perHour Micro, milli int64, rest uint64) (Micro, uint64) {
	hi, lo := bits.Mul64(uint64(perHour), uint64(milli))
	lo, carry := bits.Add64(lo, rest, 0)
	hi += carry
	if hi >= milliHour {
		return mostMicro, 0
	}
	q, r := bits.Div64(hi, lo, milliHour)
	if q > uint64(mostMicro) {
		return mostMicro, 0
	}
	return Micro(q), r
}
