package fragment

// levels are the remainders of a card that are told apart: hundredths, from nothing to all, both
// ends included.
const levels = whole/10 + 1

// unit is the worth of a whole card: worth and cost are in millionths of a card.
const unit int64 = 1_000_000

// worth is the value of a card by what is left of it, in hundredths, where shares of these sizes
// were asked for so often: count is by size in hundredths, and what is at 0 does not matter. The
// value of nothing is 0, that of a whole card is unit, and it never falls as more is left.
//
// The idea is that of cutting stock. Suppose all shares of the mix were to be packed into as few
// cards as possible, fractions of cards allowed. The dual of that linear program puts a price on
// each size such that no combination that fits on a card costs more than a card, and the prices of
// all shares together are the number of cards needed. What is left of a card is worth the dearest
// combination of sizes that still fits. So 19 hundredths beside a share of 81 are worth nearly
// nothing if hardly any request is for so little, though they would fit someone; and 35 are worth a
// third of a card where shares of 65 and of 32 are asked for as often.
//
// The prices are found by raising those of sizes that the best combination has too few of and
// lowering the others, rounds times with shrinking steps, and averaging the second half. Averages of such steps tend to the dual
// prices, where the steps themselves circle around them. It does
// not have to be exact: a placement is charged the difference of two values, and differences below
// a fiftieth of a card do not count. What a mix comes to is nevertheless always the same, because
// the number of rounds is fixed and everything is whole numbers.
//
// It costs at most rounds times 101 comparisons for each size that is asked for.
func worth(count *[levels]int64) [levels]int64 {
	const rounds = 384
	var sizes []int
	var price, sum [levels]int64
	// Prices begin in proportion to size, which is what they would be if shares never left anything
	// over.
	for s := 1; s < levels; s++ {
		if count[s] > 0 {
			sizes = append(sizes, s)
			price[s] = unit * int64(s) / (levels - 1)
		}
	}
	if len(sizes) == 0 {
		return linear()
	}
	// root is the square root of the round, in thousandths, rounded down. It grows with the round,
	// so that each round goes on from the last. Steps shrink with it: the sum of all steps grows
	// without bound, so that every price can be reached, and each step comes to nothing.
	root := int64(1000)
	for round := int64(1); round <= rounds; round++ {
		for (root+1)*(root+1) <= round*1_000_000 {
			root++
		}
		value, last := dearest(sizes, &price)
		cards := int64(0) // what all shares cost, in millionths of a card
		for _, s := range sizes {
			// Prices are scaled so that the dearest combination costs a card: no combination then
			// costs more, which is what dual prices must keep.
			price[s] = price[s] * unit / value[levels-1]
			cards += count[s] * price[s]
		}
		// holds is how many of each size the dearest combination of a card has: last says what was
		// put in last, and what that leaves says the rest.
		var holds [levels]int64
		for left := levels - 1; left > 0; {
			if last[left] == 0 {
				left--
				continue
			}
			holds[last[left]]++
			left -= last[left]
		}
		for _, s := range sizes {
			// How many of the size a card should hold, less how many the dearest one holds, in thousandths.
			lack := count[s]*1000*unit/cards - holds[s]*1000
			// A step changes a price by at most 60 %, and by less as rounds go on. Without a bound, a
			// size that is asked for far more than others would move by many times its price.
			lack = max(-4000, min(4000, lack))
			price[s] += price[s] * lack * 150 / (root * 1000)
			price[s] = max(1, min(unit, price[s]))
			if round > rounds/2 {
				sum[s] += price[s]
			}
		}
	}
	value, _ := dearest(sizes, &sum)
	card := value[levels-1]
	for r := range value {
		value[r] = value[r] * unit / card
	}
	return value
}

// linear is the worth of remainders where no shares are known: each hundredth is a hundredth.
func linear() (out [levels]int64) {
	for r := range out {
		out[r] = unit * int64(r) / (levels - 1)
	}
	return out
}

// dearest is the most that sizes which fit together into each remainder are worth, and the size
// that was put in last, 0 where nothing was. Each size can be used any number of times: it is the
// unbounded knapsack, filled from the smallest remainder up, so that the values of smaller
// remainders are final when they are used.
//
// sizes are ascending, so that the loop ends at the first that is larger than the remainder. Of
// equal combinations the one found first stays, which makes the result the same in every run. It
// costs a comparison for each size and remainder.
func dearest(sizes []int, price *[levels]int64) (value [levels]int64, last [levels]int) {
	for r := 1; r < levels; r++ {
		value[r] = value[r-1]
		for _, s := range sizes {
			if s > r {
				break
			}
			if v := price[s] + value[r-s]; v > value[r] {
				value[r], last[r] = v, s
			}
		}
	}
	return value, last
}
