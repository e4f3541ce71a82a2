package index

// And narrows the scope to a domain or node.
func (sc Scope) And(o Scope) Scope {
	if o.Node != nil {
		return sc.On(o.Node)
	}
	return sc.in(o.Domains[0])
}
