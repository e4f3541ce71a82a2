package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Diagnoser answers questions about one set of facts. It is for one goroutine.
type Diagnoser struct {
	facts  *facts.Facts
	model  Model // nil: nodes, or the pods on them, were not seen
	checks []*check.Check
	loaded bool
	trials int // left for the target at hand
	alike  int // most pods to come of one maker, in no gang, that the engine is asked about
	late   func() bool
	brief  bool
	asks   bool // why there is no place is asked of edited facts too
}

// New makes a Diagnoser. The model is empty and belongs to it from now on; nil does without the engine. Where the
// facts lack nodes, or pods of some namespaces, the engine is not asked: it would count room that is not there.
func New(f *facts.Facts, m Model) *Diagnoser {
	if !f.Sees("nodes", "") || !f.Sees("pods", "") {
		m = nil
	}
	return &Diagnoser{facts: f.Bounded(), model: m, checks: Checks(), alike: mostTogether}
}

// NewLoaded is New with a model that holds everything that does not wait already, as Load gives it. Of pods to come that are
// alike it asks the engine about the first alone: a caller with a model of its own has them all planned.
func NewLoaded(f *facts.Facts, m Model) *Diagnoser {
	d := New(f, m)
	d.loaded, d.alike = true, 1
	return d
}

// Until ends the search for fixes once late says so. What is in the way is always found.
func (d *Diagnoser) Until(late func() bool) { d.late = late }

// Brief has a diagnosis try nothing out: it names its cause by what the engine says, and has no fixes.
func (d *Diagnoser) Brief(yes bool) { d.brief = yes }

// Load gives a model everything of the facts that does not wait.
func Load(f *facts.Facts, m Model) { New(f, m).load() }

// load gives the model everything that does not wait.
func (d *Diagnoser) load() {
	if d.loaded || d.model == nil {
		return
	}
	d.loaded = true
	var all []metav1.Object
	for _, k := range facts.Kinds {
		if k.Kind == "Event" {
			continue
		}
		for _, o := range k.List(&d.facts.Objects) {
			if standing(o) {
				all = append(all, place.Offered(d.facts, o))
			}
		}
	}
	d.model.Set(all...)
}

// standing says whether the object is in the model always: all but pods that wait, which are there while their target
// is looked at.
func standing(o facts.Object) bool {
	p, ok := o.(*corev1.Pod)
	return !ok || p.Spec.NodeName != ""
}

// Why says what keeps the target from running. The error is a NotFound.
func (d *Diagnoser) Why(target facts.Ref) (Diagnosis, error) {
	top, err := d.facts.Find(target)
	if err != nil {
		return Diagnosis{}, err
	}
	return d.why(top), nil
}

// judgement is what the checks say of a target in some facts.
type judgement struct {
	cases    []*check.Case
	findings []*check.Finding
	starts   []engine.Placement // where several pods that wait go, each beside the others
	left     int                // how many of them go nowhere
	stalls   bool               // work that is rolled out stops at a pod after them
}

// judge runs all checks on all cases of the target.
func (d *Diagnoser) judge(f *facts.Facts, target facts.Ref, top facts.Object) *judgement {
	d.load()
	s := d.enter(f, top)
	defer s.leave()
	j := &judgement{cases: casesOf(f, target, top)}
	for _, c := range j.cases {
		c.Fit, c.Checks, c.Unexplained = s.fit(c), d.checks, f.Hypothetical() && !d.asks
	}
	if len(s.waiting) > 1 && d.alike > 1 && j.eachFits() {
		j.starts, j.left = s.together(f.At)
		for _, c := range j.cases {
			if c.Fit != nil && len(s.waiting) <= mostTogether {
				c.Fit.Together = len(j.starts)
			}
		}
	}
	for _, c := range j.cases {
		cut := c.Waits() && c.Fit != nil && len(convert.AboveLimits(c.Pod)) > 0
		for _, check := range d.checks {
			for _, found := range check.Find(c) {
				if cut && found.Fit { // it compares nodes with a part of what the pod asks for
					continue
				}
				found.Check, found.Pod = check, c.Pod
				found.Layer, found.Owner = cmp.Or(found.Layer, check.Layer), cmp.Or(found.Owner, check.Owner)
				found.Stage = cmp.Or(found.Stage, check.Stage)
				found.Advice = cmp.Or(found.Advice, check.Remedy)
				found.On(subject(c, top), top)
				found.For(c.Pod)
				j.add(found)
			}
		}
	}
	return j
}

// placed says whether the engine was asked, and has a place for every pod that it was asked about.
func (j *judgement) placed() bool {
	asked := false
	for _, c := range j.cases {
		if c.Fit != nil {
			asked = true
			if !c.Fit.Placed() {
				return false
			}
		}
	}
	return asked
}

// eachFits says whether the engine has a place for every pod that waits, taken alone.
func (j *judgement) eachFits() bool {
	for _, c := range j.cases {
		if c.Waits() && c.Like > 0 && (c.Fit == nil || !c.Fit.Placed()) { // of none, there is nothing to place
			return false
		}
	}
	return true
}

func (j *judgement) add(found check.Finding) {
	for _, other := range j.findings {
		if other.Check == found.Check && other.Message == found.Message {
			return
		}
	}
	j.findings = append(j.findings, &found)
}

// free says whether nothing stands in the way of the target's pods.
func (j *judgement) free() bool { return j.freeBut("") }

// freeBut says the same but for findings of one cause.
func (j *judgement) freeBut(cause why.Cause) bool {
	for _, f := range j.findings {
		if f.Check.Cause == cause {
			continue
		}
		if !f.Fit && !f.Healthy && !f.Last && !j.explained(f) {
			return false
		}
	}
	return j.eachFits() && j.left == 0 && !j.stalls
}

// outcome says where the pods would go, in words.
func (j *judgement) outcome() string {
	nodes, pods := make(map[string]bool), make(map[string]bool)
	last := ""
	all := j.starts
	for _, c := range j.cases {
		if c.Fit != nil && len(j.starts) == 0 {
			all = append(all, c.Fit.Starts...)
		}
	}
	for _, p := range all {
		nodes[p.Node], pods[p.Pod] = true, true
		last = p.Node
	}
	switch {
	case len(pods) == 1:
		return "it starts: node " + last + " has room"
	case len(nodes) == 1:
		return fmt.Sprintf("%d pods start: node %s has room", len(pods), last)
	case len(pods) > 1:
		return fmt.Sprintf("%d pods start: %d nodes have room", len(pods), len(nodes))
	}
	return "it goes on"
}

// why makes the diagnosis.
func (d *Diagnoser) why(top facts.Object) Diagnosis {
	target := facts.RefTo(top)
	out := Diagnosis{APIVersion: APIVersion, Kind: Kind, Target: target, Layer: check.None, Owner: check.Nobody, Cause: Healthy, Created: top.GetCreationTimestamp().Time}
	j := d.judge(d.facts, target, top)
	out.State = j.cases[0].State
	out.Scheduler = d.asServed(j)
	above := aboveLimits(j.cases)
	if d.trials = mostTrials; d.brief || above != nil { // what is tried on a pod that was cut says nothing of the real one
		d.trials = 0
	}
	t := &trial{d: d, target: target, top: top, base: j}
	t.bind()
	t.recollect()
	for _, f := range t.ordered() {
		out.Blockers = append(out.Blockers, Blocker{Layer: f.Layer, Cause: f.Check.Cause, Owner: f.Owner, Binding: t.binds[f], Message: f.Message, Evidence: f.Evidence})
	}
	out.Unseen = slices.Clone(d.facts.Unseen)
	out.Unheeded = unheeded(d.facts, top)
	first := t.first()
	if first == nil || first.Healthy && d.contradicted(&out, j) {
		d.healthy(&out, j)
		d.blind(&out, j.cases[0])
		above.note(&out, nil)
		d.limited(&out, j, nil)
		return out
	}
	out.Layer, out.Cause, out.Owner, out.Summary = first.Layer, first.Check.Cause, first.Owner, first.Message
	if first.Healthy {
		out.Layer = check.None
		if first.Owner != check.User { // what its author asked for is the author's to change
			out.Owner = check.Nobody
		}
	}
	if !first.Until.IsZero() {
		out.ETA = &facts.ETA{Earliest: first.Until, Likely: first.Until, Because: first.Because}
	}
	if e := j.expects(); e != nil && (first.Layer == check.L3 || first.Healthy) { // it knows who else waits
		out.ETA = e
	}
	if above == nil {
		out.Fixes = t.fixes()
	}
	if len(out.Fixes) == 0 {
		out.Advice = first.Advice
	}
	above.note(&out, first)
	d.limited(&out, j, first)
	return out
}
