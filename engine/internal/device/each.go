package device

// Each visits the ways to give one pod its devices, as ascending indices, until visit says to stop. Devices that are
// alike in model, clique and NUMA node are the same to it: of such ways it visits one, with the first of the alike
// devices. So a node with two cliques of four like GPUs has 3 ways to give two of them, and not 28: both of one
// clique, both of the other, or one of each. The slice is good until visit returns.
func Each(devs []Device, w Want, visit func([]int) bool) {
	e := ways{devs: devs, want: w, visit: visit}
	for i := range devs {
		if w.takes(&devs[i]) {
			e.free = append(e.free, i)
		}
	}
	e.from(0)
}

// ways is the enumeration. free is the indices of devices that the pod could have, ascending; taken is the way in the
// making.
type ways struct {
	devs        []Device
	want        Want
	free, taken []int
	visit       func([]int) bool
}

// from takes or leaves the i-th free device and goes on; it reports whether to. It ends early where too few devices
// are left.
//
// For example, a and b are alike, c is not, and two are wanted: a is taken, and with it b, then c; then a is left, and b with it, and c alone
// is too few. {b, c} is not visited, since it is {a, c} by other names. Devices that are alike need not be neighbours for that to be
// right, but only neighbours are passed over: others are visited again, which costs a way and misses none.
func (e *ways) from(i int) bool {
	if len(e.taken) == e.want.Count {
		return e.visit(e.taken)
	}
	if len(e.free)-i < e.want.Count-len(e.taken) {
		return true
	}
	d := e.free[i]
	if e.allowed(d) {
		e.taken = append(e.taken, d)
		ok := e.from(i + 1)
		e.taken = e.taken[:len(e.taken)-1]
		if !ok {
			return false
		}
	}
	// What was left once is left for good: to take a like device instead would be the same way again.
	for i++; i < len(e.free) && e.alike(d, e.free[i]); i++ {
	}
	return e.from(i)
}

// allowed says whether the device may lie with those taken. All of these are together already, so that a comparison with the first is
// enough.
func (e *ways) allowed(d int) bool {
	required := e.want.where(Require)
	return required == 0 || len(e.taken) == 0 || together(e.devs, e.taken[0], d, required)
}

// alike tells whether either device will do as well as the other. Devices without a clique are each alone in their
// own, so no two of them are alike.
func (e *ways) alike(a, b int) bool {
	x, y := e.devs[a], e.devs[b]
	return x.Model == y.Model && x.Clique == y.Clique && x.NUMA == y.NUMA && x.Clique != "" && x.Mark == y.Mark
}
