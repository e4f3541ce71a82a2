package l3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var noSuchPoolCheck = check.Check{
	Cause: "no-such-pool", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 11,
	Title:   "The nodes that are asked for do not exist",
	Meaning: "The pod's node selector or affinity asks for a label, such as a GPU model or a pool, that no node of this cluster has.",
	Remedy:  "Ask for nodes that exist, or have such nodes added.",
	Not:     "The cluster is full.",
	Find:    noSuchPool,
}

func noSuchPool(c *check.Case) []check.Finding {
	idle := unasked(c)
	if !idle && (place.Stuck(c) == nil || supply.Autoscaled(c)) { // whether one could be made is another question
		return nil
	}
	var out []check.Finding
	for _, n := range place.Unmet(c) {
		if _, _, ok := place.NearMiss(c, n); ok || place.OnlyPartitioned(c, n) {
			continue
		}
		have := place.ValuesOf(c.Facts, n.Key)
		maker := supply.MakerNamed(c, n)
		if maker != nil && !idle && supply.ReportsFault(maker) {
			continue // the nodes that are asked for are those that it would make
		}
		f := check.Finding{
			Fit:      !idle,
			Message:  fmt.Sprintf("the pod asks for %s, and no node has the label %s", n.Text(), n.Key),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: n.Field(), Value: n.Text()}},
		}
		if len(have) > 0 {
			f.Message = fmt.Sprintf("the pod asks for %s, and no node has it; %s", n.Text(), counts(n.Key, have))
			for _, v := range place.ByDistance(strings.Join(n.Values, ","), have)[:min(len(have), 3)] {
				if e, ok := place.Renames(c, n, n.Key, v); ok {
					e.Cost = edit.CostSmall
					f.Edits = append(f.Edits, e)
				}
			}
		}
		if key, value, ok := place.ByAnotherName(c, n); ok && len(have) == 0 {
			f.Message += fmt.Sprintf("; %s", counts(key, map[string]int{value: place.ValuesOf(c.Facts, key)[value]}))
			if e, ok := place.Renames(c, n, key, value); ok {
				f.Edits = append(f.Edits, e)
			}
		}
		if e, ok := place.Drops(c, n); ok {
			f.Edits = append(f.Edits, e)
		}
		if class := place.WrittenByClass(c, n); class != nil {
			f.Owner, f.Evidence, f.Edits = check.Platform, append([]facts.Evidence{place.ClassEvidence(class, n)}, f.Evidence...), nil
			f.Message += fmt.Sprintf("; RuntimeClass %s, which the pod names, asks for it", class.Name)
			f.Advice = fmt.Sprintf("Give the nodes that have the runtime of RuntimeClass %s the label, have such nodes added, or name another RuntimeClass.", class.Name)
		}
		if maker != nil {
			f.Layer, f.Owner, f.Edits = check.L2, check.Platform, nil
			f.Message += fmt.Sprintf("; %s, which would make such nodes, has made none", facts.RefTo(maker))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(maker).In(), Field: "metadata.name", Value: maker.GetName()})
			f.Advice = fmt.Sprintf("Look at %s and at the controller that makes its nodes.", facts.RefTo(maker))
		}
		if meant := supply.MakerMeant(c, n); meant != nil && maker == nil {
			f.Edits = nil // another value would be other machines
			f.Message += fmt.Sprintf("; there is %s", facts.RefTo(meant))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(meant).In(), Field: "metadata.name", Value: meant.GetName()})
			f.Advice = fmt.Sprintf("Ask for %s=%s, if that is what was meant: it may make nodes of it.", n.Key, meant.GetName())
		}
		if w := gpustack.WriterOf(c.Facts, n.Key); w != nil && (len(have) == 0 || w.Withholds) {
			f.Layer, f.Owner, f.Advice = check.L2, check.Platform, w.Advice
			f.Message, f.Evidence = f.Message+"; "+w.Says, append(f.Evidence, w.Evidence)
			if w.Withholds {
				f.Edits = nil
			}
		}
		if by, ok := place.AddedOnTheWayIn(c, n); ok {
			f.Owner, f.Message = check.Platform, fmt.Sprintf("%s; what was written does not ask for it: %s", f.Message, by.Who)
			f.Evidence, f.Advice = append(f.Evidence, by.Evidence), by.Advice
		}
		out = append(out, f)
	}
	return out
}

// counts are the values of a label and their nodes, in words.
func counts(key string, have map[string]int) string {
	var out []string
	for v, n := range have {
		out = append(out, fmt.Sprintf("%d %s %s=%s", n, wording.InNumber(n, "has", "have"), key, v))
	}
	slices.Sort(out)
	return wording.AtMost(5, out)
}
