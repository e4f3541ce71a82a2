package place

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Shortfall is why a request for devices cannot be met, the one that is nearest to being met first.
type Shortfall int

const (
	Busy      Shortfall = iota // they are there, and others have them
	Repelled                   // they have a taint
	TooFew                     // no node has so many
	NoneMatch                  // the selectors match none
	Unoffered                  // nobody offers any of the class
	Classless                  // there is no such class
)

// shortfall is why a request cannot be met, with the words for it.
type shortfall struct {
	why  Shortfall
	text string
}

// Short is why the request cannot be met, whatever else the pod asks for, in words; of one that could be it says Busy. Several checks ask, and
// every device of the cluster is looked at, so that the answer is kept.
func (d *Devices) Short(a *AskAt) (Shortfall, string) {
	key := facts.RefTo(a.Claim.written).In() + " " + a.Claim.Name + " " + a.name
	s, known := d.short[key]
	if !known {
		s.why, s.text = d.lookFor(a)
		d.short[key] = s
	}
	return s.why, s.text
}

func (d *Devices) lookFor(a *AskAt) (Shortfall, string) {
	if Named(d.f.DeviceClasses, "", a.Class) == nil {
		return Classless, fmt.Sprintf("there is no class %s", a.Class)
	}
	class := d.OfClass(a.Class)
	if len(class) == 0 {
		return Unoffered, fmt.Sprintf("nobody offers a device of class %s", a.Class)
	}
	var match []*Device
	for _, v := range class {
		if Selected(d.f, v, a.Selectors) == nil {
			match = append(match, v)
		}
	}
	if len(match) == 0 {
		text := fmt.Sprintf("none of the %s of class %s matches its selectors", wording.Number(len(class), "device"), a.Class)
		if products := Sample(class, "productName"); products != "" {
			text += " (they are " + products + ")"
		}
		return NoneMatch, text
	}
	held, open := 0, 0
	for _, v := range match {
		switch {
		case Repelling(v, &a.DeviceAsk).Key != "":
		case v.Holder != nil || len(v.beside) > 0 || v.Lacks(&a.DeviceAsk) != "":
			open, held = open+1, held+1
		default:
			open++
		}
	}
	if open == 0 {
		return Repelled, fmt.Sprintf("%d %s, with taints such as %s", len(match), wording.InNumber(len(match), "device matches", "devices match"), Repelling(match[0], &a.DeviceAsk).Key)
	}
	if most, at := d.most(&a.DeviceAsk); most < a.Count {
		return TooFew, fmt.Sprintf("it asks for %d, and node %s, which has most of them, has %d", a.Count, at, most)
	}
	return Busy, fmt.Sprintf("it asks for %d on one node, and of %d that match %d %s in use", a.Count, open, held, wording.InNumber(held, "is", "are"))
}

// OfClass are the devices of the class.
func (d *Devices) OfClass(class string) (out []*Device) {
	for _, v := range d.All {
		if d.InClass(v, class) {
			out = append(out, v)
		}
	}
	return out
}

// most is how many devices that suit the request the node has that has most of them, free or not; of several nodes the first.
func (d *Devices) most(ask *DeviceAsk) (most int, at string) {
	for _, n := range d.f.Nodes {
		match := 0
		for _, v := range d.reach(n) {
			if d.Suits(v, ask) {
				match++
			}
		}
		if match > most || match == most && match > 0 && n.Name < at {
			most, at = match, n.Name
		}
	}
	return most, at
}

// Alternatives are those of one request, of which the scheduler takes the first that can be had.
type Alternatives struct {
	Nearest Shortfall // of the one that is nearest to being had
	Text    string    // why none can be had, a clause for each
	asks    []*AskAt
	short   []Shortfall
}

// Alternatives are those of the request that the ask is one of; nil where it has no others.
func (d *Devices) Alternatives(asks []AskAt, of *AskAt) *Alternatives {
	out := &Alternatives{Nearest: Classless}
	var said []string
	for i := range asks {
		a := &asks[i]
		if a.sub < 0 || a.Request != of.Request || a.Claim.Name != of.Claim.Name {
			continue
		}
		short, text := d.Short(a)
		out.Nearest = min(out.Nearest, short)
		out.asks, out.short = append(out.asks, a), append(out.short, short)
		_, name, _ := strings.Cut(a.name, "/")
		said = append(said, name+": "+text)
	}
	if len(out.asks) < 2 {
		return nil
	}
	request, _, _ := strings.Cut(of.name, "/")
	out.Text = fmt.Sprintf("request %s of claim %s has %d alternatives, and none can be had: %s", request, of.Claim.Name, len(said), strings.Join(said, "; "))
	return out
}

// Is says whether the ask is an alternative that cannot be had for this reason, and none is nearer. Of a request without alternatives it is
// always true.
func (a *Alternatives) Is(ask *AskAt, why Shortfall) bool {
	if a == nil {
		return true
	}
	for i, o := range a.asks {
		if o.sub == ask.sub {
			return a.Nearest == why && a.short[i] == why
		}
	}
	return false
}

// Evidence is what keeps each alternative from being had, as far as the claim says it.
func (a *Alternatives) Evidence() (out []facts.Evidence) {
	for i, ask := range a.asks {
		switch a.short[i] {
		case Classless, Unoffered:
			out = append(out, ask.Evidence(".deviceClassName", ask.Class))
		case NoneMatch:
			if s := ask.Selectors[0].CEL; s != nil {
				out = append(out, ask.Evidence(".selectors[0].cel.expression", s.Expression))
			}
		case TooFew:
			out = append(out, ask.Evidence(".count", fmt.Sprint(ask.Count)))
		}
	}
	return out
}

// Edits change an alternative so that it could be had: fewer devices, or other ones.
func (a *Alternatives) Edits(c *check.Case, d *Devices) (out []edit.Edit) {
	if a == nil {
		return nil
	}
	for i, ask := range a.asks {
		switch a.short[i] {
		case TooFew:
			most, at := d.most(&ask.DeviceAsk)
			out = append(out, Fewer(c, ask, most, at)...)
		case NoneMatch:
			out = append(out, Reselect(c, ask, d.OfClass(ask.Class))...)
		}
	}
	return out
}

// Fewer asks for as many devices as a node has.
func Fewer(c *check.Case, a *AskAt, most int, at string) []edit.Edit {
	text := fmt.Sprintf("ask for %d devices of class %s in %s, which is what node %s has", most, a.Class, a.Where(), at)
	e, ok := Rewrite(c, a, text, edit.Op{Op: "replace", Path: a.Path() + "/count", Value: most})
	if !ok || most == 0 {
		return nil
	}
	e.Assumes, e.Cost = "the work can do with fewer devices", edit.CostLess
	return []edit.Edit{e}
}

// NoMatch is the first selector of the request that leaves nothing of the devices of its class: its place, the devices that those before it
// leave, and where it could not be worked out for one of them. ok is false where the selectors leave some.
func NoMatch(c *check.Case, a *AskAt, class []*Device) (index int, left []*Device, failed *NotSelected, ok bool) {
	left = class
	for i, s := range a.Selectors {
		var next []*Device
		for _, v := range left {
			if n := Selected(c.Facts, v, []resourcev1.DeviceSelector{s}); n == nil {
				next = append(next, v)
			} else if n.Err != nil {
				failed = n
			}
		}
		if len(next) == 0 && s.CEL != nil {
			return i, left, failed, true
		}
		left, failed = next, nil
	}
	return 0, nil, nil, false
}

// Reselect changes the selector that no device of the class matches: to words that some have, or away.
func Reselect(c *check.Case, a *AskAt, class []*Device) (out []edit.Edit) {
	index, left, _, ok := NoMatch(c, a, class)
	if !ok {
		return nil
	}
	path, in := fmt.Sprintf("%s/selectors/%d", a.Path(), index), ""
	if a.sub >= 0 {
		in = " in " + a.Where()
	}
	for _, other := range OtherWords(c.Facts, a.Selectors[index].CEL.Expression, left) {
		if e, ok := Rewrite(c, a, "select devices by "+other+in, edit.Op{Op: "replace", Path: path + "/cel/expression", Value: other}); ok {
			e.Assumes = "the work can do with such devices"
			out = append(out, e)
		}
	}
	if e, ok := Rewrite(c, a, fmt.Sprintf("drop the selector of %s, so that any device of class %s will do", a.Where(), a.Class), edit.Op{Op: "remove", Path: path}); ok {
		e.Cost, e.Assumes = 3, "the work can do with any of them"
		out = append(out, e)
	}
	return out
}
