package diagnose

import (
	"cmp"
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// Where several things are in the way, no edit helps alone, and the edit of one of them may bring the next to light: a claim that does
// not exist hides that no node would do. So edits are combined, the cheapest combination first: each one that still fails is extended
// by an edit against what is in its way then, as a person would mend one thing after the other.

// mostCombined bounds the combinations that are tried for one target, beside the edits that were tried alone, and mostEdits the edits
// of each.
const (
	mostCombined = 30
	mostEdits    = 3
)

// combination is edits that are made one after the other.
type combination struct {
	edits []edit.Edit
	cost  int
	// against is what the last edit is to take away; nil where it need not do so alone.
	against *check.Finding
}

// combined are the cheapest combinations of edits that help: one that its author can make alone, and one in which others have a part.
func (t *trial) combined(binding, mends []*check.Finding) []Fix {
	t.d.trials = mostCombined
	var open []combination
	for _, root := range [][]*check.Finding{binding, mends} { // what stands for a cause may do more than its edit
		if slices.ContainsFunc(root, func(f *check.Finding) bool { return f.Fit }) {
			root = append(slices.Clone(root), t.places()...) // none of which need help alone
		}
		open = t.extended(open, combination{}, obstaclesOf(root))
	}
	var own, others []Fix
	for len(open) > 0 && len(own) == 0 {
		c := open[0]
		open = open[1:]
		if t.d.late != nil && t.d.late() {
			break
		}
		if edit.Undone(t.d.facts, t.top, c.edits) {
			continue
		}
		j := t.with(c.edits...)
		switch {
		case j == nil, j.free() && len(c.edits) == 1: // what helps alone is proposed alone, or not at all
		case !j.free():
			if c.against == nil || !j.reports(c.against) {
				open = t.extended(open, c, t.obstacles(c.edits))
			}
		case c.side() == edit.Workload:
			own = append(own, t.least(j, c.edits))
		case len(others) == 0:
			others = append(others, t.least(j, c.edits))
		}
	}
	return append(own, others...)
}

// least is the fix of the edits, which help together, without those that are to spare: what was made against one obstacle may take
// away an earlier one too.
func (t *trial) least(j *judgement, edits []edit.Edit) Fix {
	for i := 0; i < len(edits) && len(edits) > 1; i++ {
		less := slices.Delete(slices.Clone(edits), i, i+1)
		if k := t.with(less...); k != nil && k.free() {
			j, edits, i = k, less, -1
		}
	}
	return t.fix(j, edits...)
}

// side is the cluster's if any of the edits is.
func (c combination) side() edit.Side {
	if slices.ContainsFunc(c.edits, func(e edit.Edit) bool { return e.Side == edit.Cluster }) {
		return edit.Cluster
	}
	return edit.Workload
}

// extended are the open combinations, the cheapest first, with those that add one edit of the obstacles to c.
func (t *trial) extended(open []combination, c combination, obstacles []*check.Finding) []combination {
	for _, f := range obstacles {
		for _, e := range t.proposed(f) {
			if slices.ContainsFunc(c.edits, func(o edit.Edit) bool { return t.sameEdit(o, e) }) {
				continue
			}
			next := combination{edits: append(slices.Clip(c.edits), e), cost: c.cost + e.Cost}
			if !f.Fit {
				next.against = f
			}
			if !slices.ContainsFunc(open, func(o combination) bool { return t.same(next, o) }) {
				open = append(open, next)
			}
		}
	}
	slices.SortStableFunc(open, func(a, b combination) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(a.edits), len(b.edits)))
	})
	return open
}

// same says whether both make the same edits, in whatever order.
func (t *trial) same(c, o combination) bool {
	return len(c.edits) == len(o.edits) && !slices.ContainsFunc(c.edits, func(e edit.Edit) bool {
		return !slices.ContainsFunc(o.edits, func(f edit.Edit) bool { return t.sameEdit(f, e) })
	})
}

func (t *trial) sameEdit(a, b edit.Edit) bool { return a.Text == b.Text && t.role(a) == t.role(b) }

// obstacles are what is in the way after the edits. Trials do not look for why there is no place; this one does.
func (t *trial) obstacles(edits []edit.Edit) (out []*check.Finding) {
	if len(edits) == mostEdits || t.d.trials <= 0 {
		return nil
	}
	t.d.trials--
	t.d.asks = true
	defer func() { t.d.asks = false }()
	t.tryOut(edits, func(f *facts.Facts, top facts.Object) {
		j := t.d.judge(f, t.target, top)
		for _, o := range j.findings {
			if !o.Healthy && !o.Last && (o.Fit && !(j.placed() && j.left == 0) || !o.Fit && !j.explained(o)) {
				out = append(out, o)
			}
		}
	})
	return obstaclesOf(out)
}

// obstaclesOf are the first of the findings that each have to go, which is enough to go on with; where none of those has an edit, all
// that are about places, of which one may do.
func obstaclesOf(binds []*check.Finding) []*check.Finding {
	binds = slices.Clone(binds)
	slices.SortStableFunc(binds, compareFindings)
	for _, f := range binds {
		if !f.Fit && len(f.Edits) > 0 {
			return []*check.Finding{f}
		}
	}
	return slices.DeleteFunc(binds, func(f *check.Finding) bool { return !f.Fit })
}

// reports says whether the finding is still made, in the same words.
func (j *judgement) reports(f *check.Finding) bool {
	return slices.ContainsFunc(j.findings, func(g *check.Finding) bool { return g.Check == f.Check && g.Message == f.Message })
}
