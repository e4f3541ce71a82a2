package calendar

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Rest ends the calendar's part in the cycle and lets go of that: from then on it can be checked, and nothing else.
func (c *Calendar) Rest() *Calendar {
	c.draft, c.ask = nil, Questions{}
	return c
}

// Check works out anew what the calendar derives, and returns where that is not what is kept. What the calendar would derive
// anew is passed over: it is asked in the cycle or, of the same model, after it. It costs a look at every pod that runs.
func (c *Calendar) Check() (found []api.Discrepancy) {
	differ := func(kind, key, account string, kept, counted int64) {
		if kept != counted {
			found = append(found, api.Discrepancy{Kind: kind, Key: key, Account: account, Kept: kept, Counted: counted})
		}
	}
	c.checkReserved(differ)
	//archtest:any-order what is found is sorted
	for g, end := range c.ends {
		if end.moves == g.Moves {
			differ("gang", g.Key, "end", end.at.Unix(), c.gangEnd(g).Unix())
		}
	}
	if c.listedAt == c.m.Standing()+1 {
		c.checkReleases(differ)
	}
	slices.SortFunc(found, func(a, b api.Discrepancy) int {
		return slices.Compare([]string{a.Kind, a.Key, a.Account}, []string{b.Kind, b.Key, b.Account})
	})
	return found
}

// checkReserved counts, by node, what the reservations in order say of it.
func (c *Calendar) checkReserved(differ func(kind, key, account string, kept, counted int64)) {
	at := make(map[*cluster.Node]int)
	for i, r := range c.reservations {
		//archtest:any-order what is found is sorted
		for n := range r.needs {
			k := at[n]
			if k >= len(c.reserved[n]) || c.reserved[n][k] != r {
				differ("node", n.Name, "reservation", -1, int64(i))
			}
			at[n]++
		}
	}
	//archtest:any-order what is found is sorted
	for n, list := range c.reserved {
		differ("node", n.Name, "reservations", int64(len(list)), int64(at[n]))
	}
}

// checkReleases looks whether every pod with a known end is in the release of that time.
func (c *Calendar) checkReleases(differ func(kind, key, account string, kept, counted int64)) {
	listed := make(map[*cluster.Pod]int64)
	for i, r := range c.releases {
		if i > 0 && !c.releases[i-1].at.Before(r.at) {
			differ("cluster", "", "order of releases", int64(i), -1)
		}
		for _, p := range r.pods {
			listed[p] = instant(r.at)
		}
	}
	//archtest:any-order what is found is sorted
	for _, p := range c.m.Pods {
		if p.Host == nil {
			continue
		}
		end := int64(0)
		if at := c.endOf(p); !at.IsZero() {
			end = instant(at)
		}
		differ("pod", p.Key, "release", listed[p], end)
		delete(listed, p)
	}
	differ("cluster", "", "released pods that do not run", int64(len(listed)), 0)
}
