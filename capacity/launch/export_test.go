package launch

// DecideOfferingAll is Decide where each round offers machines of all pools, also of those that nobody wants.
func DecideOfferingAll(w World) Decisions {
	d := newDecider(w)
	d.offersAll = true
	return d.decide()
}
