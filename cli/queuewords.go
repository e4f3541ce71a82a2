package cli

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/kube/answer"
)

// queueWords is what the figures of a queue mean, in sentences; items are all queues that can be seen.
func queueWords(q *answer.Queue, items []answer.Queue) []string {
	var out []string
	if s := shareWords(q, siblings(q, items)); s != "" {
		out = append(out, s)
	}
	if n, ok := gpusIn(q.Borrowed); ok {
		out = append(out, fmt.Sprintf("%s %s beyond its quota: %s.", someGPUs(n), agree(n, "is", "are"), agree(n, "its owner gets it back on asking", "their owners get them back when they ask")))
	}
	if n, ok := gpusIn(q.Lent); ok {
		out = append(out, fmt.Sprintf("%s of its quota %s used by others: its own work gets %s back.", someGPUs(n), agree(n, "is", "are"), agree(n, "it", "them")))
	}
	for _, b := range q.Budgets {
		words := fmt.Sprintf("Budget: used %s of %s %s-hours in this period of %s", hours(wholeSeconds(b.Resource, b.Spent)), hours(wholeSeconds(b.Resource, b.Seconds)), b.Resource, periodOf(b))
		if b.Spent >= b.Seconds {
			words += "; nothing starts before the next"
		}
		out = append(out, words+".")
	}
	return out
}

func someGPUs(n int64) string { return plural(int(n), "GPU") }

// siblings are the queues between which what is over is shared, the queue itself among them.
func siblings(q *answer.Queue, items []answer.Queue) (out []*answer.Queue) {
	for i := range items {
		if o := &items[i]; o.Parent == q.Parent && !o.Missing && o.Problem == "" {
			out = append(out, o)
		}
	}
	return out
}

// claim is what a queue's share is made of, in GPUs.
type claim struct {
	share, quota, asks int64
}

func claimOf(q *answer.Queue) (c claim) {
	c.share, _ = gpusIn(q.Share)
	c.quota, _ = gpusIn(q.Quota)
	used, _ := gpusIn(q.Used)
	wanted, _ := gpusIn(q.Wanted)
	c.asks = used + wanted
	return c
}

// own is what it has of its quota, and over what it has of what is over.
func (c claim) own() int64  { return min(c.quota, c.share) }
func (c claim) over() int64 { return c.share - c.own() }

// shareWords is how the share comes about, so that a person can check it: the quota, and a part by weight of what is
// over among the siblings. It is "" where shares are not known.
func shareWords(q *answer.Queue, among []*answer.Queue) string {
	var over, weights, shares int64
	for _, o := range among {
		c := claimOf(o)
		shares, over = shares+c.share, over+c.over()
		if c.asks > c.quota {
			weights += weightOf(o)
		}
	}
	if shares == 0 {
		return ""
	}
	c := claimOf(q)
	used, _ := gpusIn(q.Used)
	var b strings.Builder
	fmt.Fprintf(&b, "Its fair share is %s", someGPUs(c.share))
	if c.quota > 0 {
		fmt.Fprintf(&b, ": %d of its quota of %d", c.own(), c.quota)
	}
	if part := c.over(); part > 0 {
		word := ", and"
		if c.quota == 0 {
			word = ":"
		}
		fmt.Fprintf(&b, "%s %d of the %d that %s over %s, by weight %d of %d", word, part, over, agree(over, "is", "are"), amongWhom(q), weightOf(q), weights)
	}
	fmt.Fprintf(&b, ". It asks for %d: it uses %d, and %d %s waited for.", c.asks, used, c.asks-used, agree(c.asks-used, "is", "are"))
	return b.String()
}

func amongWhom(q *answer.Queue) string {
	if q.Parent == "" {
		return "among the queues at the top that ask for more"
	}
	return fmt.Sprintf("among the queues of %s that ask for more", q.Parent)
}
