package mig

// Repacked plays the case as if everything that runs could be moved at every arrival: a request is let in if all could be
// packed anew with it. No hardware can do this. It shows how much of what is refused is for want of room rather than for
// where things are.
func Repacked(c Case) Result {
	var n [5]int
	return play(c, func(profile int) func() {
		n[profile]++
		if needed(n) > c.Cards {
			n[profile]--
			return nil
		}
		return func() { n[profile]-- }
	})
}

// needed is the fewest cards that hold so many instances of each profile. A 3g is beside a 4g, beside another 3g, or alone; every
// division is tried. What is left of a card beside a 4g takes a 2g and a 1g, beside a single 3g two 2g, and of an empty card
// three 2g and a 1g; a 2g can be two 1g everywhere.
func needed(n [5]int) int {
	best := 1 << 30
	for beside := range min(n[2], n[3]) + 1 {
		for single := (n[2] - beside) % 2; single <= n[2]-beside; single += 2 {
			cards := n[4] + n[3] + single + (n[2]-beside-single)/2
			twos, ones := n[3]-beside+2*single, 3*(n[3]-beside)+4*single // room in what is left
			best = min(best, cards+rest(max(0, n[1]-twos), n[0]-ones+2*min(n[1], twos)))
		}
	}
	return best
}

// rest is how many empty cards take so many 2g and 1g.
func rest(twos, ones int) int {
	cards := (twos + 2) / 3
	ones -= 7*cards - 2*twos
	return cards + (max(0, ones)+6)/7
}
