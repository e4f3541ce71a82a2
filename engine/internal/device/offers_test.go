package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
)

// card is a GPU with two halves and itself as devices, all drawing on its memory.
func card(name string, selections ...string) []api.Offer {
	half := func(part string) api.Offer {
		return api.Offer{ID: name + part, Selections: []string{"half"}, Draws: []api.Draw{{Counter: name, Amount: 40}}}
	}
	whole := api.Offer{ID: name, Selections: append(selections, "whole"), Draws: []api.Draw{{Counter: name, Amount: 80}}}
	return []api.Offer{whole, half("a"), half("b")}
}

func one(selection string, count int) *api.Claims {
	return &api.Claims{Requests: []api.DeviceRequest{{Name: "c/r", Options: []api.DeviceOption{{Selection: selection, Count: count}}}}}
}

func TestPartitionsShareTheirCard(t *testing.T) {
	n := &api.Node{
		Name: "n", Offers: append(card("x"), card("y")...),
		Counters: []api.Counter{{Name: "x", Amount: 80}, {Name: "y", Amount: 80}},
	}
	o := NewOffers(n)
	if got := [2]int64{o.Pods(one("whole", 1), 10), o.Pods(one("half", 1), 10)}; got != [2]int64{2, 4} {
		t.Fatalf("%d whole cards and %d halves", got[0], got[1])
	}
	o.Hold("xa", 1)
	ids, _ := o.Choose(one("half", 1), nil)
	if diff := cmp.Diff([]string{"xb"}, ids); diff != "" {
		t.Errorf("a half is not taken off the card in use (-want +got):\n%s", diff)
	}
	if ids, _ := o.Choose(one("whole", 1), nil); !slices.Equal(ids, []string{"y"}) {
		t.Errorf("a whole card: %v", ids)
	}
	if ids, ok := o.Choose(one("whole", 2), nil); ok {
		t.Errorf("two whole cards: %v", ids)
	}
	o.Hold("xa", 1) // a second pod with the same claim
	o.Hold("xa", -1)
	if got := o.Pods(one("whole", 1), 10); got != 1 {
		t.Errorf("%d whole cards while one half is shared by two pods", got)
	}
	o.Hold("xa", -1)
	if got := o.Pods(one("whole", 1), 10); got != 2 {
		t.Errorf("%d whole cards when all is given back", got)
	}
}

func TestFirstOptionThatCanBeHad(t *testing.T) {
	n := &api.Node{Name: "n", Offers: []api.Offer{{ID: "a", Selections: []string{"big"}}, {ID: "b", Selections: []string{"small"}}}}
	c := &api.Claims{Requests: []api.DeviceRequest{{Name: "c/r", Options: []api.DeviceOption{{Selection: "big", Count: 1}, {Selection: "small", Count: 1}}}}}
	o := NewOffers(n)
	for _, want := range []string{"a", "b"} {
		ids, ok := o.Choose(c, nil)
		if !ok || !slices.Equal(ids, []string{want}) {
			t.Fatalf("%v, want %s", ids, want)
		}
		o.Hold(ids[0], 1)
	}
	if ids, ok := o.Choose(c, nil); ok {
		t.Errorf("%v when none is left", ids)
	}
}

// TestOffersEqualBruteForce holds the search against one that tries every assignment.
func TestOffersEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, c := drawOffers(t), drawClaims(t)
		o := NewOffers(n)
		var shares []api.Share
		for i := range n.Offers {
			d := &n.Offers[i]
			if rapid.IntRange(0, 3).Draw(t, "held") != 0 {
				continue
			}
			if !d.Shared {
				o.Hold(d.ID, 1)
				d.Taken = true
				continue
			}
			s := api.Share{Device: d.ID, Name: rapid.SampledFrom([]string{"", "x"}).Draw(t, "share")}
			for _, k := range d.Capacity {
				s.Draws = append(s.Draws, api.Draw{Counter: k.Name, Amount: int64(rapid.IntRange(0, 2).Draw(t, "of it"))})
			}
			o.Hold(s.String(), 1)
			shares = append(shares, s)
			if s.Name != "" { // a second pod with the same claim
				o.Hold(s.String(), 1)
			}
		}
		ids, ok := o.Choose(c, nil)
		if want := len(assignments(n, c, shares, true)) > 0; ok != want {
			t.Fatalf("found %v, brute force says %v\n%s", ids, want, cmp.Diff(nil, n))
		}
		if pods := o.Pods(c, 5); (pods > 0) != ok {
			t.Fatalf("room for %d pods, and for one: %v", pods, ok)
		}
		if ok {
			slices.Sort(ids)
			if all := assignments(n, c, shares, false); !slices.ContainsFunc(all, func(way []string) bool { return slices.Equal(way, ids) }) {
				t.Fatalf("%v is not among %v", ids, all)
			}
		}
		for _, s := range shares {
			for range 1 + len(s.Name) {
				o.Hold(s.String(), -1)
			}
		}
		for i := range n.Offers {
			if n.Offers[i].Taken {
				o.Hold(n.Offers[i].ID, -1)
			}
		}
		if !slices.Equal(o.left, o.Empty().left) {
			t.Fatalf("%v is left where all is given back, of %v", o.left, o.Empty().left)
		}
	})
}

func drawOffers(t *rapid.T) *api.Node {
	n := &api.Node{Name: "n"}
	for i := range rapid.IntRange(0, 2).Draw(t, "counters") {
		n.Counters = append(n.Counters, api.Counter{Name: fmt.Sprint("c", i), Amount: int64(rapid.IntRange(0, 4).Draw(t, "amount"))})
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "devices") {
		o := api.Offer{ID: fmt.Sprint("d", i)}
		for _, s := range []string{"s", "u"} {
			if rapid.Bool().Draw(t, s) {
				o.Selections = append(o.Selections, s)
			}
		}
		if v := rapid.SampledFrom([]string{"", "p", "q", "p" + api.Several + "q", "q" + api.Several + "r"}).Draw(t, "root"); v != "" {
			o.Attributes = map[string]string{"root": v}
			if rapid.Bool().Draw(t, "other") {
				o.Attributes["other"] = rapid.SampledFrom([]string{"p", "q"}).Draw(t, "value")
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "shared") == 0 {
			o.Shared = true
			for k := range rapid.IntRange(0, 2).Draw(t, "capacities") {
				o.Capacity = append(o.Capacity, api.Counter{Name: fmt.Sprint("k", k), Amount: int64(rapid.IntRange(0, 4).Draw(t, "capacity"))})
			}
			for _, s := range o.Selections {
				u := api.Use{Selection: s}
				for _, k := range o.Capacity {
					u.Draws = append(u.Draws, api.Draw{Counter: k.Name, Amount: int64(rapid.IntRange(0, 3).Draw(t, "use"))})
				}
				o.Uses = append(o.Uses, u)
			}
		}
		for _, c := range n.Counters {
			if rapid.Bool().Draw(t, "draws") {
				o.Draws = append(o.Draws, api.Draw{Counter: c.Name, Amount: int64(rapid.IntRange(1, 2).Draw(t, "draw"))})
			}
		}
		n.Offers = append(n.Offers, o)
	}
	if len(n.Counters) > 0 && rapid.Bool().Draw(t, "groups") {
		for i := range n.Offers {
			for _, d := range n.Offers[i].Draws {
				n.Offers[i].Groups = append(n.Offers[i].Groups, api.SetGroups{Set: d.Counter, Groups: rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"x", "y"}}).Draw(t, "group")})
			}
		}
	}
	return n
}

func drawClaims(t *rapid.T) *api.Claims {
	c := &api.Claims{}
	for range rapid.IntRange(0, 2).Draw(t, "agreements") {
		c.Match = append(c.Match, api.DeviceAgreement{Attribute: "root", Distinct: rapid.Bool().Draw(t, "distinct")})
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "requests") {
		r := api.DeviceRequest{Name: fmt.Sprint("c/r", i), Claim: rapid.IntRange(0, 1).Draw(t, "claim")}
		for range rapid.IntRange(1, 2).Draw(t, "options") {
			opt := api.DeviceOption{Selection: rapid.SampledFrom([]string{"s", "u"}).Draw(t, "selection"), Count: rapid.IntRange(1, 2).Draw(t, "count")}
			switch rapid.IntRange(0, 7).Draw(t, "mode") {
			case 0:
				opt.All, opt.Count = true, 0
				r.Options = append(r.Options, opt) // under no agreement: see TestWhatStopsUpstream
				continue
			case 1:
				opt.Admin = true
			}
			for m := range c.Match {
				if rapid.Bool().Draw(t, "under") {
					opt.Match = append(opt.Match, m)
				}
			}
			if len(opt.Match) > 0 && rapid.IntRange(0, 3).Draw(t, "as") == 0 {
				for range opt.Match {
					opt.As = append(opt.As, rapid.SampledFrom([]string{"", "other"}).Draw(t, "attribute"))
				}
			}
			r.Options = append(r.Options, opt)
		}
		c.Requests = append(c.Requests, r)
	}
	return c
}

// assignments is every way to meet the claims, as sorted lists of the devices that are held; with first, one at most.
func assignments(n *api.Node, c *api.Claims, shares []api.Share, first bool) (all [][]string) {
	type use struct {
		device, request int
		opt             *api.DeviceOption
	}
	lawful := func(uses []use) bool {
		left, used := map[string]int64{}, map[int]bool{}
		for _, k := range n.Counters {
			left[k.Name] = k.Amount
		}
		for i, d := range n.Offers {
			for _, k := range d.Capacity {
				left[d.ID+k.Name] = k.Amount
			}
			for _, s := range shares {
				if s.Device == d.ID {
					used[i] = true
					for _, x := range s.Draws {
						left[d.ID+x.Counter] -= x.Amount
					}
				}
			}
			if d.Taken || used[i] {
				for _, x := range d.Draws {
					left[x.Counter] -= x.Amount
				}
			}
		}
		drawn := map[string]bool{}
		draw := func(name string, amount int64) {
			left[name] -= amount
			drawn[name] = true
		}
		had := map[int][]use{}
		values := make([][]string, len(c.Match))
		for _, u := range uses {
			d := n.Offers[u.device]
			if !u.opt.Admin && d.Taken {
				return false
			}
			for _, v := range had[u.device] {
				if !d.Shared && (!u.opt.Admin || c.Requests[v.request].Claim == c.Requests[u.request].Claim) {
					return false
				}
			}
			had[u.device] = append(had[u.device], u)
			if d.Shared {
				for _, x := range d.UseOf(u.opt.Selection) {
					draw(d.ID+x.Counter, x.Amount)
				}
			}
			if !d.Shared || !used[u.device] {
				for _, x := range d.Draws {
					draw(x.Counter, x.Amount)
				}
			}
			used[u.device] = used[u.device] || d.Shared
			for k, m := range u.opt.Match {
				name := "root"
				if u.opt.As != nil && u.opt.As[k] != "" {
					name = u.opt.As[k]
				}
				v, ok := d.Attributes[name]
				if !ok {
					return false
				}
				values[m] = append(values[m], v)
			}
		}
		for name, v := range left {
			if v < 0 && drawn[name] {
				return false
			}
		}
		for m, list := range values {
			count := map[string]int{}
			for _, v := range list {
				for _, one := range strings.Split(v, api.Several) {
					count[one]++
				}
			}
			most := 0
			for _, k := range count {
				most = max(most, k)
			}
			if c.Match[m].Distinct && most > 1 || !c.Match[m].Distinct && most != len(list) {
				return false
			}
		}
		for _, u := range uses {
			d := n.Offers[u.device]
			isHeld := func(i int) bool {
				return n.Offers[i].Taken || slices.ContainsFunc(shares, func(s api.Share) bool { return s.Device == n.Offers[i].ID })
			}
			if d.Shared && isHeld(u.device) {
				continue
			}
			for _, g := range d.Groups {
				members, grouped, count := 0, 0, map[string]int{}
				for i := range n.Offers {
					if !isHeld(i) && len(had[i]) == 0 {
						continue
					}
					for _, h := range n.Offers[i].Groups {
						if h.Set != g.Set {
							continue
						}
						if members++; len(h.Groups) > 0 {
							grouped++
						}
						for _, name := range h.Groups {
							count[name]++
						}
					}
				}
				if grouped > 0 && count["x"] < members && count["y"] < members {
					return false
				}
			}
		}
		return true
	}
	var try func(r int, uses []use)
	try = func(r int, uses []use) {
		if first && len(all) > 0 {
			return
		}
		if r == len(c.Requests) {
			if lawful(uses) {
				held := []string{}
				for _, u := range uses {
					if d := n.Offers[u.device]; !u.opt.Admin && d.Shared {
						share := api.Share{Device: d.ID, Draws: d.UseOf(u.opt.Selection)}
						held = append(held, share.String())
					} else if !u.opt.Admin {
						held = append(held, d.ID)
					}
				}
				slices.Sort(held)
				all = append(all, held)
			}
			return
		}
		for k := range c.Requests[r].Options {
			opt := &c.Requests[r].Options[k]
			var fits []int
			for i := range n.Offers {
				if slices.Contains(n.Offers[i].Selections, opt.Selection) {
					fits = append(fits, i)
				}
			}
			for set := 1; set < 1<<len(fits); set++ {
				more := slices.Clone(uses)
				for b, i := range fits {
					if set&(1<<b) != 0 {
						more = append(more, use{i, r, opt})
					}
				}
				if count := len(more) - len(uses); opt.All && count == len(fits) || !opt.All && count == opt.Count {
					try(r+1, more)
				}
			}
		}
	}
	try(0, nil)
	return all
}

// TestWhatStopsUpstream has the cases in which upstream gives a node up for good, and those beside them in which it does not come that far.
func TestWhatStopsUpstream(t *testing.T) {
	n := &api.Node{Name: "n", Offers: []api.Offer{
		{ID: "a", Selections: []string{"s"}, Attributes: map[string]string{"root": "p"}},
		{ID: "b", Fails: []string{"s", "u"}},
		{ID: "c", Selections: []string{"s", "u", "v"}, Attributes: map[string]string{"root": "p"}},
		{ID: "d", Selections: []string{"v", "w"}, Attributes: map[string]string{"root": "q"}},
		{ID: "e", Blocks: []string{"x"}},
		{ID: "f", Selections: []string{"x"}},
	}}
	all := func(selection string, match ...int) api.DeviceOption {
		return api.DeviceOption{Selection: selection, All: true, Match: match}
	}
	claims := func(options ...api.DeviceOption) *api.Claims {
		return &api.Claims{Requests: []api.DeviceRequest{{Name: "c/r", Options: options}}, Match: []api.DeviceAgreement{{Attribute: "root"}}}
	}
	for name, c := range map[string]struct {
		claims *api.Claims
		held   string
		want   []string
	}{
		"enough before it fails":            {one("s", 1), "", []string{"a"}},
		"it fails before there is enough":   {one("s", 2), "", nil},
		"it fails first":                    {one("u", 1), "", nil},
		"somebody has what it fails for":    {one("u", 1), "b", []string{"c"}},
		"all are looked at, also held ones": {claims(all("u")), "b", nil},
		"an agreement that all break":       {claims(all("v", 0), all("w")), "", nil},
		"all, and one is held":              {claims(all("v", 0), all("w")), "c", []string{"d"}},
		"one of all has a taint":            {claims(all("x"), all("w")), "", []string{"d"}},
		"all that agree":                    {claims(all("w", 0)), "", []string{"d"}},
	} {
		o := NewOffers(n)
		o.Hold(c.held, 1)
		if ids, ok := o.Choose(c.claims, nil); ok != (c.want != nil) || !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", name, ids, c.want)
		}
		if ways, _ := o.Ways(c.claims, 9); (len(ways) > 0) != (c.want != nil) {
			t.Errorf("%s: ways %v", name, ways)
		}
	}
}

// What is left in pieces is counted wherever it is: a half on each of two cards would do for a whole one, and what others draw is gone.
func TestPiecesAddUp(t *testing.T) {
	n := &api.Node{
		Name: "n", Offers: append(card("x"), card("y")...),
		Counters: []api.Counter{{Name: "x", Amount: 80}, {Name: "y", Amount: 80}},
	}
	o := NewOffers(n)
	pieces := func() [4]int64 {
		return [4]int64{o.Pieces(one("whole", 1)), o.Pieces(one("half", 1)), o.Pieces(one("whole", 2)), o.Pieces(one("other", 1))}
	}
	var got [][4]int64
	for _, id := range []string{"", "xa", "ya", "xb"} {
		o.Hold(id, 1)
		got = append(got, pieces())
	}
	want := [][4]int64{{2000, 4000, 1000, 0}, {1500, 3000, 750, 0}, {1000, 2000, 500, 0}, {500, 1000, 250, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plain := NewOffers(&api.Node{Name: "n", Offers: []api.Offer{{ID: "a", Selections: []string{"gpu"}}, {ID: "b", Selections: []string{"gpu"}}}})
	plain.Hold("a", 1)
	if got := plain.Pieces(one("gpu", 2)); got != 500 {
		t.Errorf("one of two devices is free: %d", got)
	}
	// Of devices that several have, what is left of their capacity counts.
	var shared []api.Offer
	for _, id := range []string{"s", "t"} {
		shared = append(shared, api.Offer{
			ID: id, Selections: []string{"most"}, Shared: true, Capacity: []api.Counter{{Name: "memory", Amount: 10}},
			Uses: []api.Use{{Selection: "most", Draws: []api.Draw{{Counter: "memory", Amount: 8}}}},
		})
	}
	both := NewOffers(&api.Node{Name: "n", Offers: shared})
	for _, step := range []struct {
		holds string
		want  int64
	}{{"", 2500}, {"s?memory=6#a", 1750}, {"t?memory=6#b", 1000}, {"t?memory=1#c", 875}, {"s", 375}} {
		both.Hold(step.holds, 1)
		if got := both.Pieces(one("most", 1)); got != step.want {
			t.Errorf("once %q is held: %d, want %d", step.holds, got, step.want)
		}
	}
	if got := (*Offers)(nil).Pieces(one("gpu", 1)); got != 0 {
		t.Errorf("no devices: %d", got)
	}
}

// A share with a name that several pods hold draws once, whether a node hears of the pods one by one or, because it comes to reach the
// device later, of all at once.
func TestNamedSharesOfDevicesInReachDrawOnce(t *testing.T) {
	n := &api.Node{Name: "n", Offers: []api.Offer{{
		ID: "far", Selections: []string{"any"}, Reach: "rack", Shared: true, Capacity: []api.Counter{{Name: "memory", Amount: 80}},
		Uses: []api.Use{{Selection: "any", Draws: []api.Draw{{Counter: "memory", Amount: 20}}}},
	}}}
	share := api.Share{Device: "far", Name: "claim", Draws: []api.Draw{{Counter: "memory", Amount: 20}}}
	o := NewOffers(n)
	o.HoldFar(share.String(), 2)
	if got := o.LeftOf(0, "memory"); got != 60 {
		t.Errorf("%d are left of 80 while two pods hold one share of 20", got)
	}
	o.HoldFar(share.String(), -1)
	o.HoldFar(share.String(), -1)
	if got := [2]int64{o.LeftOf(0, "memory"), int64(o.Sharers(0))}; got != [2]int64{80, 0} {
		t.Errorf("%d are left of 80, and it has %d sharers, when both pods are gone", got[0], got[1])
	}
}

// One claim has 32 devices at most: a count says no room for more, as the search does.
func TestOneClaimHasSoManyDevices(t *testing.T) {
	n := &api.Node{Name: "n"}
	for i := range 40 {
		n.Offers = append(n.Offers, api.Offer{ID: fmt.Sprint("d", i), Selections: []string{"any"}})
	}
	for _, count := range []int{api.MaxOfOneClaim, api.MaxOfOneClaim + 1} {
		o, c := NewOffers(n), one("any", count)
		_, ok := o.Choose(c, nil)
		if pods := o.Pods(c, 10); (pods > 0) != ok {
			t.Errorf("%d devices: %d pods by count, and a choice: %v", count, pods, ok)
		}
	}
}
