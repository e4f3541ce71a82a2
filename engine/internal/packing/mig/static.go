package mig

// layouts are the ways to cut a card up for good that leave no slot in which something could begin, as instances of each
// profile of A100.
var layouts = [][5]int{
	{0, 0, 0, 0, 1},
	{0, 0, 1, 1, 0},
	{0, 0, 2, 0, 0},
	{1, 1, 0, 1, 0}, {3, 0, 0, 1, 0},
	{0, 2, 1, 0, 0}, {2, 1, 1, 0, 0}, {4, 0, 1, 0, 0}, {1, 1, 1, 0, 0}, {3, 0, 1, 0, 0},
	{1, 3, 0, 0, 0}, {3, 2, 0, 0, 0}, {5, 1, 0, 0, 0}, {7, 0, 0, 0, 0},
}

// Static plays the case with cards that were cut up beforehand, as well as can be for the mix and the load: card after card
// gets the layout after which the fewest requests are lost by Erlang's formula, and then single cards change theirs as long as
// that helps. A request takes an instance of its size, or the smallest larger one that is free.
func Static(c Case) Result {
	free := partition(c)
	return play(c, func(profile int) func() {
		for p := profile; p < len(free); p++ {
			if free[p] > 0 {
				free[p]--
				return func() { free[p]++ }
			}
		}
		return nil
	})
}

// partition is the number of instances of each profile.
func partition(c Case) (have [5]int) {
	used := make([]int, c.Cards) // layouts by card
	for i := range used {
		used[i] = bestLayout(c, have)
		have = add(have, layouts[used[i]], 1)
	}
	for changed := true; changed; {
		changed = false
		for i, l := range used {
			without := add(have, layouts[l], -1)
			if b := bestLayout(c, without); b != l && lost(c, add(without, layouts[b], 1)) < lost(c, have)-1e-9 {
				used[i], have, changed = b, add(without, layouts[b], 1), true
			}
		}
	}
	return have
}

func bestLayout(c Case, have [5]int) int {
	best, least := 0, 0.0
	for i, l := range layouts {
		if n := lost(c, add(have, l, 1)); i == 0 || n < least {
			best, least = i, n
		}
	}
	return best
}

func add(a, b [5]int, sign int) [5]int {
	for i := range a {
		a[i] += sign * b[i]
	}
	return a
}

// lost is how many requests are lost in a mean life if none takes a larger instance than it asked for.
func lost(c Case, have [5]int) float64 {
	sum := 0.0
	for i, w := range c.Mix.Weight {
		offered := c.rate() * float64(w) / float64(c.Mix.total())
		sum += offered * erlang(have[i], offered)
	}
	return sum
}

// erlang is the part of an offered load that finds all servers busy.
func erlang(servers int, offered float64) float64 {
	b := 1.0
	for n := 1; n <= servers; n++ {
		b = offered * b / (float64(n) + offered*b)
	}
	return b
}
