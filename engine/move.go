package engine

// tidy moves running work so that places become whole, within the budget for that.
func (y *cycle) tidy() {}
