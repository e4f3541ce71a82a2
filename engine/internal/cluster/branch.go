package cluster

import (
	"cmp"
	"slices"
)

// NotBegun returns, of the groups below that have members and not their minimum on nodes, the first that has the members it needs, and
// the first leaf or group that lacks some; nil: there is none.
func (b *Branch) NotBegun() (whole, lacks *Branch) {
	for _, c := range b.Children {
		switch {
		case c.Waiting() == 0:
		case c.Satisfied():
			w, l := c.NotBegun()
			whole, lacks = cmp.Or(whole, w), cmp.Or(lacks, l)
		case c.Complete():
			whole = cmp.Or(whole, c)
		default:
			lacks = cmp.Or(lacks, c.Lacking())
		}
	}
	return whole, lacks
}

// Lacking returns the first leaf that has too few pods to ever have its minimum, or a group that has too few groups.
func (b *Branch) Lacking() *Branch {
	if len(b.Children) == 0 {
		return b
	}
	for _, c := range b.Children {
		if !c.Complete() {
			return c.Lacking()
		}
	}
	return b
}

// Least is the least that the branch can ask for to have its minimum, with what each pod asks for.
func (b *Branch) Least(asks func(*Pod) int64) int64 {
	var each []int64
	n := 0
	if len(b.Children) == 0 {
		n = b.Min() - b.Allocated
		for _, p := range b.Pods {
			if p.Host == nil {
				each = append(each, asks(p))
			}
		}
	} else {
		n = b.MinGroups()
		for _, c := range b.Children {
			switch {
			case b.Has(c):
				each = append(each, 0)
			case c.Complete():
				each = append(each, c.Least(asks))
			}
		}
	}
	slices.Sort(each)
	var sum int64
	for _, v := range each[:max(0, min(n, len(each)))] {
		sum += v
	}
	return sum
}

// Held is what the branch's members are charged of a resource.
func (b *Branch) Held(dim int) int64 {
	var sum int64
	for _, p := range b.Pods {
		if p.Host != nil {
			for _, d := range p.Charge {
				if d.Dim == dim {
					sum += d.Amount
				}
			}
		}
	}
	for _, c := range b.Children {
		sum += c.Held(dim)
	}
	return sum
}

// Need is how many members the branch lacks of its minimum, in its cheapest groups.
func (b *Branch) Need() int {
	if len(b.Children) == 0 {
		return max(0, b.Min()-b.Allocated)
	}
	var each []int
	for _, c := range b.Children {
		switch {
		case b.Has(c):
			each = append(each, 0)
		case c.Complete():
			each = append(each, c.Need())
		}
	}
	slices.Sort(each)
	sum := 0
	for _, n := range each[:min(b.MinGroups(), len(each))] {
		sum += n
	}
	return sum
}

// Required says whether any part of the tree must be in one domain.
func (b *Branch) Required() bool {
	found := false
	b.Each(func(b *Branch) { found = found || b.Group.Layout.Required != "" || b.Group.Layout.Segment > 0 })
	return found
}

// Path lists the branches from b down to the leaf, nil if the leaf is not below b.
func (b *Branch) Path(leaf *Branch) []*Branch {
	if b == leaf {
		return []*Branch{b}
	}
	for _, c := range b.Children {
		if p := c.Path(leaf); p != nil {
			return append([]*Branch{b}, p...)
		}
	}
	return nil
}

// Mates lists the members of the i-th pod's segment that have an allocation.
func (b *Branch) Mates(i int) []*Pod {
	size := b.Group.Layout.Segment
	first := i / size * size
	var out []*Pod
	for _, p := range b.Pods[first:min(first+size, len(b.Pods))] {
		if p.Host != nil {
			out = append(out, p)
		}
	}
	return out
}

// Must lists the leaves that must start.
func (b *Branch) Must() []*Branch {
	if len(b.Children) == 0 {
		return []*Branch{b}
	}
	if b.MinGroups() < len(b.Children) {
		return nil
	}
	var out []*Branch
	for _, c := range b.Children {
		if !b.Has(c) {
			out = append(out, c.Must()...)
		}
	}
	return out
}

// RunningPods lists the members of the branch that have an allocation.
func (b *Branch) RunningPods() []*Pod {
	var out []*Pod
	b.Each(func(b *Branch) {
		for _, p := range b.Pods {
			if p.Host != nil {
				out = append(out, p)
			}
		}
	})
	return out
}
