package workload

import (
	"fmt"
	"slices"
	"strings"
)

// meeting names a rendezvous: programs meet if they share a group and agree on its size.
type meeting struct {
	group string
	world int // 0: the programs of the group work alone
}

// crew is everybody who runs under one meeting, waiting or working. Registry.mu guards it.
type crew struct {
	meeting
	size    int
	waiting []*process  // in rendezvous, in order of arrival
	indices map[int]int // programs that work alone, by index; more than one while a pod is replaced
	roll    string      // who has joined, as text; "" when out of date
}

// enter adds p and returns the communicator that it completed, if it did.
func (c *crew) enter(p *process) *communicator {
	c.size++
	if c.world == 0 {
		return c.solo(p)
	}
	c.waiting, c.roll = append(c.waiting, p), ""
	if len(c.waiting) < c.world {
		return nil
	}
	seats := c.seats()
	if slices.Contains(seats, nil) {
		return nil
	}
	return c.form(seats)
}

// solo gives p a communicator of its own, and the lowest free index if it came without one.
func (c *crew) solo(p *process) *communicator {
	index := p.id.Index
	if index < 0 {
		for index = 0; c.indices[index] > 0; index++ {
		}
	}
	c.indices[index]++
	p.index = index
	return newCommunicator(fmt.Sprintf("index/%d/%s", index, c.group), []*process{p})
}

// form takes the seated programs out of the rendezvous. Their checkpoint is one for all: the
// ranks save together, and a rank alone could not go on from its part.
func (c *crew) form(seats []*process) *communicator {
	for rank, p := range seats {
		p.index = rank
	}
	seated := func(p *process) bool { return seats[p.index] == p }
	c.waiting, c.roll = slices.DeleteFunc(c.waiting, seated), ""
	return newCommunicator("world/"+c.group, seats)
}

// exit removes p.
func (c *crew) exit(p *process) {
	c.size--
	if c.world > 0 {
		c.waiting, c.roll = slices.DeleteFunc(c.waiting, p.is), ""
		return
	}
	if c.indices[p.index]--; c.indices[p.index] == 0 {
		delete(c.indices, p.index)
	}
}

// seats puts those who wait into the ranks 0 to world-1; nil is a missing rank. A rank that is
// asked for twice goes to who came first. Programs without a rank fill the gaps in the order
// of their names, so that the outcome does not hang on who was a millisecond early.
func (c *crew) seats() []*process {
	seats := make([]*process, c.world)
	var anywhere []*process
	for _, p := range c.waiting {
		switch {
		case p.id.Index < 0:
			anywhere = append(anywhere, p)
		case seats[p.id.Index] == nil:
			seats[p.id.Index] = p
		}
	}
	slices.SortStableFunc(anywhere, func(a, b *process) int { return strings.Compare(a.id.Pod, b.id.Pod) })
	for rank := range seats {
		if seats[rank] == nil && len(anywhere) > 0 {
			seats[rank], anywhere = anywhere[0], anywhere[1:]
		}
	}
	return seats
}

// named is how many missing ranks are listed in a log line.
const named = 8

// joined says who has joined. The text is made once per change, not once per reader: every
// rank of a large world prints it.
func (c *crew) joined() string {
	if c.roll == "" {
		c.roll = c.describe()
	}
	return c.roll
}

func (c *crew) describe() string {
	var missing []string
	for rank, p := range c.seats() {
		if p == nil {
			missing = append(missing, fmt.Sprint(rank))
		}
	}
	text := fmt.Sprintf("%d of %d joined", c.world-len(missing), c.world)
	ranked := func(p *process) bool { return p.id.Index >= 0 }
	if len(missing) == 0 || !slices.ContainsFunc(c.waiting, ranked) {
		return text
	}
	more := ""
	if len(missing) > named {
		missing, more = missing[:named], fmt.Sprintf(" and %d more", len(missing)-named)
	}
	return fmt.Sprintf("%s, missing %s%s", text, strings.Join(missing, " "), more)
}
