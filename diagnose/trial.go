package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// mostTrials bounds the edits that are tried for one target, and mostFixes those that are printed.
const (
	mostTrials = 40
	mostFixes  = 4
)

// trial decides, for one target, which findings bind and which edits help, by judging the facts as they would be.
type trial struct {
	d      *Diagnoser
	target facts.Ref
	top    facts.Object
	base   *judgement
	binds  map[*check.Finding]bool
	mends  map[*check.Finding]bool // those that bind before any is gone: the edits of all of them are tried
	before []recalled              // earlier versions of what bears on the target
	tried  map[string]*judgement
}

// with judges the facts after the edits; nil where they cannot be made, or too many were tried.
func (t *trial) with(edits ...edit.Edit) *judgement {
	key := ""
	for _, e := range edits {
		key += string(e.Side) + e.Text + t.role(e) + "\x00"
	}
	if j, ok := t.tried[key]; ok {
		return j
	}
	if t.d.trials <= 0 {
		return nil
	}
	t.d.trials--
	j := t.judge(edits)
	if t.tried == nil {
		t.tried = make(map[string]*judgement)
	}
	t.tried[key] = j
	return j
}

// role is the pod template that the edit changes, where there are several to choose from: two edits may have the same words for two of them.
func (t *trial) role(e edit.Edit) string {
	on := cmp.Or(e.On, t.top)
	if _, foreign := on.(*unstructured.Unstructured); !foreign || e.For == nil || len(e.Ops) == 0 {
		return ""
	}
	return facts.TemplatePathFor(on, e.For)
}

func (t *trial) judge(edits []edit.Edit) (j *judgement) {
	t.tryOut(edits, func(f *facts.Facts, top facts.Object) {
		j = t.d.judge(f, t.target, top)
		j.stalls = j.free() && t.d.stalls(f, t.target, top, j)
	})
	return j
}

// tryOut has somebody look at the facts after the edits, with the model as it would be. Nobody looks where the edits cannot be
// made.
func (t *trial) tryOut(edits []edit.Edit, look func(*facts.Facts, facts.Object)) {
	f, changes, err := edit.After(t.d.facts, t.top, edits)
	if err != nil {
		return
	}
	top, err := f.Find(t.target)
	if err != nil {
		return
	}
	m := t.d.model
	if m != nil {
		t.d.load()
		move(m, f, changes)
		defer func() { move(m, t.d.facts, reversed(changes)) }()
	}
	look(f, top)
}

// move carries the changes out in the model.
func move(m Model, f *facts.Facts, changes []facts.Change) {
	for _, c := range changes {
		if c.Was != nil && standing(c.Was) && (c.Now == nil || !standing(c.Now)) {
			m.Delete(c.Was)
		}
		if c.Now != nil && standing(c.Now) {
			m.Set(metav1.Object(place.Offered(f, c.Now)))
		}
	}
}

// bind decides which findings bind: those that need no engine to say so; and of those about places, each that alone
// keeps the pod from one, else the smallest set that does so together, else what the engine names.
func (t *trial) bind() {
	t.binds = make(map[*check.Finding]bool)
	defer t.remain()
	defer t.bindLast()
	comes := t.comes()
	for _, f := range t.base.findings {
		if !f.Fit && !f.Last {
			t.binds[f] = !f.Healthy && !t.base.explained(f) && !(comes[f.Pod] && f.Stage == check.Place && t.unasked(f.Pod))
		}
	}
	places := t.places()
	if len(places) == 0 || t.base.placed() {
		return
	}
	alone := false
	for _, f := range places {
		if e, ok := f.Stands(); ok && t.helps(e) {
			t.binds[f], alone = true, true
		}
	}
	if alone {
		return
	}
	if set := t.together(places); len(set) > 0 {
		for _, f := range set {
			t.binds[f] = true
		}
		return
	}
	t.named(places)
}

// bindLast has the findings bind that do so only where nothing else does, unless something healthy explains them.
func (t *trial) bindLast() {
	for _, f := range t.base.findings {
		if t.binds[f] {
			return
		}
	}
	for _, generic := range []bool{false, true} { // a check that knows the cause goes before one that only repeats a report
		for _, f := range t.base.findings {
			if f.Last && !f.Healthy && (f.Check.Cause == controllerReports) == generic && !t.base.explained(f) {
				t.binds[f] = true
			}
		}
		if slices.ContainsFunc(t.base.findings, func(f *check.Finding) bool { return t.binds[f] }) {
			return
		}
	}
}

// remain has only those bind that are still there when the first cause is gone: two findings that one edit takes away are one
// obstacle, seen twice. What is found of pods that run is left alone: an edit makes them anew, which proves nothing of it.
func (t *trial) remain() {
	t.mends = maps.Clone(t.binds)
	first := t.first()
	if first == nil || !t.binds[first] {
		return
	}
	e, ok := first.Stands()
	if !ok {
		return
	}
	j := t.with(e)
	if j == nil || j.finds(first) {
		return
	}
	for _, f := range t.base.findings {
		gone := f.Fit && j.placed() || !f.Fit && !j.finds(f)
		if t.binds[f] && f.Stage <= check.Place && gone {
			t.binds[f] = f == first
		}
	}
}

// finds says whether the check of the finding still finds something.
func (j *judgement) finds(f *check.Finding) bool {
	return slices.ContainsFunc(j.findings, func(g *check.Finding) bool { return g.Check == f.Check && !g.Healthy })
}

// places are the findings that bind only as far as the engine says so. None binds for a pod whose place is on its way,
// which a healthy finding about places says.
func (t *trial) places() []*check.Finding {
	comes := t.comes()
	var out []*check.Finding
	for _, f := range t.base.findings {
		if f.Fit && !f.Healthy && !comes[f.Pod] {
			out = append(out, f)
		}
	}
	return out
}

// comes are the pods whose place is on its way.
func (t *trial) comes() map[*corev1.Pod]bool {
	out := make(map[*corev1.Pod]bool)
	for _, f := range t.base.findings {
		out[f.Pod] = out[f.Pod] || f.Fit && f.Healthy
	}
	return out
}

// unasked says whether the engine was not asked about the pod: what is said of its place is hearsay.
func (t *trial) unasked(p *corev1.Pod) bool {
	return slices.ContainsFunc(t.base.cases, func(c *check.Case) bool { return c.Pod == p && c.Fit == nil })
}

// helps says whether the pods have places after the edit, whatever else stands in their way.
func (t *trial) helps(edits ...edit.Edit) bool {
	j := t.with(edits...)
	return j != nil && j.placed()
}

// together finds findings whose edits help only all at once, none of them to spare.
func (t *trial) together(places []*check.Finding) []*check.Finding {
	var set []*check.Finding
	for _, f := range places {
		if _, ok := f.Stands(); ok {
			set = append(set, f)
		}
	}
	if len(set) < 2 || !t.allHelp(set) {
		return nil
	}
	for i := len(set) - 1; i >= 0 && len(set) > 1; i-- {
		if less := slices.Delete(slices.Clone(set), i, i+1); t.allHelp(less) {
			set = less
		}
	}
	return set
}

func (t *trial) allHelp(set []*check.Finding) bool {
	var edits []edit.Edit
	for _, f := range set {
		e, _ := f.Stands()
		edits = append(edits, e)
	}
	return t.helps(edits...)
}

// named marks the findings whose cause is the engine's own; where there is none, or no engine, the first.
func (t *trial) named(places []*check.Finding) {
	found := false
	for _, f := range places {
		for _, c := range t.base.cases {
			if c.Fit != nil && c.Fit.Cause == f.Check.Cause {
				t.binds[f], found = true, true
			}
		}
	}
	if !found {
		first := slices.MinFunc(places, compareFindings)
		t.binds[first] = true
	}
}

func compareFindings(a, b *check.Finding) int {
	return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Check.Rank, b.Check.Rank), strings.Compare(string(a.Check.Cause), string(b.Check.Cause)), strings.Compare(a.Message, b.Message))
}

// ordered are the findings, those that bind first, then healthy ones, then the rest.
func (t *trial) ordered() []*check.Finding {
	class := func(f *check.Finding) int {
		switch {
		case t.binds[f]:
			return 0
		case f.Healthy:
			return 1
		}
		return 2
	}
	out := slices.DeleteFunc(slices.Clone(t.base.findings), func(f *check.Finding) bool { return !t.binds[f] && (f.Last || t.base.explained(f)) }) // consequences
	slices.SortStableFunc(out, func(a, b *check.Finding) int { return cmp.Or(cmp.Compare(class(a), class(b)), compareFindings(a, b)) })
	return out
}

// first is the finding that the diagnosis names: one that binds, else a healthy one.
func (t *trial) first() *check.Finding {
	for _, f := range t.ordered() {
		if t.binds[f] || f.Healthy {
			return f
		}
	}
	return nil
}

// fixes tries the edits of what binds: each alone, then, where none helps alone, several together.
func (t *trial) fixes() []Fix {
	if f := t.first(); f != nil && t.binds[f] && (f.Told || f.Check.Cause == controllerReports && f.Stage == check.Admit && len(f.Edits) == 0) {
		return nil // its reporter alone can say yes or no: no trial can
	}
	var edits []edit.Edit
	var binding, mends []*check.Finding
	if f := t.first(); f != nil && f.Healthy { // as its author has it: the change may be wanted
		for i := range t.before {
			if r := &t.before[i]; r.blames(f) {
				edits = append(edits, t.allowed([]edit.Edit{t.revert(f, r, r.Changes)})...)
			}
		}
	}
	for _, f := range t.ordered() {
		if t.binds[f] {
			binding = append(binding, f)
		}
		if t.mends[f] {
			mends = append(mends, f)
			edits = append(edits, t.proposed(f)...)
			edits = append(edits, t.allowed(slices.Concat(t.reverts(f, t.before), t.peers(f)))...)
		}
	}
	slices.SortStableFunc(edits, func(a, b edit.Edit) int { return cmp.Compare(a.Cost, b.Cost) })
	var out []Fix
	have := make(map[edit.Side]int)
	for _, e := range edits {
		if t.d.late != nil && t.d.late() {
			return out
		}
		if have[e.Side] >= mostFixes/2 || slices.ContainsFunc(out, func(f Fix) bool { return f.Edit == e.Text }) {
			continue
		}
		if j := t.with(e); j != nil && j.free() {
			out = append(out, t.fix(j, e))
			have[e.Side]++
		}
	}
	if f := t.first(); f != nil && t.binds[f] && f.Check.Cause == why.BehindTheHead && len(binding) == 1 {
		out = append(out, t.headStarts()...)
	}
	if len(out) == 0 {
		out = t.combined(binding, mends)
	}
	return out
}

// proposed are the finding's own edits that may be proposed.
func (t *trial) proposed(f *check.Finding) []edit.Edit {
	out := t.allowed(f.Edits)
	if first := t.first(); !t.binds[f] && first != nil && first.Layer == check.L2 { // to get more machines is no way to mend those that are there
		out = slices.DeleteFunc(out, func(e edit.Edit) bool { return e.Command == "" && len(e.Ops) == 0 })
	}
	return out
}

// allowed are those of the edits that may be proposed, with what each takes for granted.
func (t *trial) allowed(edits []edit.Edit) []edit.Edit {
	var out []edit.Edit
	for _, e := range edits {
		if never(t.d.facts, t.top, e) == "" {
			e.Assumes = assumed(t.d.facts, t.top, e)
			out = append(out, e)
		}
	}
	return out
}

// fix words an edit that was tried.
func (t *trial) fix(j *judgement, edits ...edit.Edit) Fix {
	out := Fix{Side: edits[0].Side, Verified: true}
	var texts, commands, assumes []string
	type patching struct {
		on  facts.Object
		of  *corev1.Pod
		ops []edit.Op
	}
	var patches []patching
	for i, e := range edits {
		text := e.Text
		if e.For != nil && slices.ContainsFunc(edits, func(o edit.Edit) bool { return o.Text == e.Text && t.role(o) != t.role(edits[i]) }) {
			text += ", for pods like " + e.For.Name
		}
		texts = append(texts, text)
		if len(e.Ops) > 0 && e.Command == "" {
			at := slices.IndexFunc(patches, func(p patching) bool {
				on := cmp.Or(e.On, t.top)
				return (p.on == e.On || p.on != nil && e.On != nil && facts.RefTo(p.on) == facts.RefTo(e.On)) && facts.Alike(on, p.of, e.For)
			})
			if at < 0 {
				at, patches = len(patches), append(patches, patching{on: e.On, of: e.For})
			}
			patches[at].ops = append(patches[at].ops, e.Ops...)
		}
		if e.Command != "" {
			commands = append(commands, e.Command)
		}
		if e.Assumes != "" && !slices.Contains(assumes, e.Assumes) {
			assumes = append(assumes, e.Assumes)
		}
		if e.Side == edit.Cluster {
			out.Side = edit.Cluster
		}
		out.Outcome = cmp.Or(e.Outcome, out.Outcome)
	}
	whole := !slices.ContainsFunc(edits, func(e edit.Edit) bool { return len(e.Ops) == 0 || len(e.Set)+len(e.Gone) > 0 })
	for _, p := range patches {
		if p.on == nil {
			p.on = t.top
		}
		commands = append(commands, t.command(p.on, p.of, p.ops))
		if whole {
			out.Patch = append(out.Patch, Patch{On: facts.RefTo(p.on), Ops: p.ops})
		}
	}
	if said := t.outrun(edits); said != "" {
		assumes = append(assumes, said)
	}
	out.Edit, out.Command, out.Assumes = strings.Join(texts, "; and "), strings.Join(commands, "\n"), strings.Join(assumes, "; ")
	if out.Outcome == "" {
		out.Outcome = j.outcome()
	}
	return out
}

// command is the line that does the operations to what a person wrote: the topmost owner that has a template, or the
// pod without a controller.
func (t *trial) command(at facts.Object, of *corev1.Pod, ops []edit.Op) string {
	for up := t.d.facts.Controller(at); up != nil; up = t.d.facts.Controller(up) {
		if facts.TemplatePath(up) != "" {
			at = up
		}
	}
	line := edit.PatchCommand(at, of, ops)
	if _, ok := at.(*batchv1.CronJob); ok { // its next Job is made from the template, and one that waits stays as it is
		for _, m := range t.d.facts.PodOwners(at) {
			if j, ok := m.(*batchv1.Job); ok && facts.JobEnded(j) == "" && slices.Contains(t.d.facts.PodOwners(t.top), m) {
				line += "\n" + edit.PatchCommand(j, of, ops)
			}
		}
	}
	if _, foreign := at.(*unstructured.Unstructured); foreign && !edit.Fixed(at) { // who makes pods keeps those that it has (KubeRay, issue 4051)
		for _, p := range t.d.facts.PodsMadeBy(at) {
			if s := facts.StateOf(p); (s == facts.Pending || s == facts.Gated || s == facts.Starting) && t.d.facts.Controller(p) == at && facts.Alike(at, of, p) {
				line += fmt.Sprintf("\nkubectl delete pod %s -n %s", p.Name, p.Namespace)
			}
		}
	}
	if _, ok := at.(*appsv1.StatefulSet); ok {
		for _, p := range t.d.facts.PodsMadeBy(at) {
			if facts.StateOf(p) == facts.Pending { // a StatefulSet waits for it rather than make it anew
				line += fmt.Sprintf("\nkubectl delete pod %s -n %s", p.Name, p.Namespace)
			}
		}
	}
	return line
}
