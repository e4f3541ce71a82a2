package lang

import (
	"math"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxPattern bounds a pattern in an expansion, and maxMatching its length times that of the value: the expand
// package matches in one go.
const (
	maxPattern  = 16 << 10
	maxMatching = 1 << 26
	substPrefix = 4 << 10 // what a substitution inside a pattern may print
)

// estimate is at most what the expansion of words takes. The expand package builds every result in one go, so it is
// asked for before. What command substitutions print is counted when they run.
type estimate struct {
	s        *Shell
	size     int64            // of the result
	cost     int64            // of what is needed on the way
	matching int64            // bytes of values times those of their patterns
	split    bool             // the part that is looked at is split into fields
	over     bool             // it is too much whatever the budget
	assigned map[string]int64 // what variables that are assigned on the way, as in ${x:=y}, may come to hold
	marked   []*syntax.CmdSubst
}

// affordable counts what the expansion of words will take until the statement is over. done must be called after it.
func (s *Shell) affordable(words []*syntax.Word, split bool) (done func(), err error) {
	e := estimate{s: s}
	for _, w := range words {
		e.assignments(w)
	}
	for _, w := range words {
		if w == nil {
			continue
		}
		for _, part := range w.Parts {
			e.split = split
			if _, quoted := part.(*syntax.DblQuoted); quoted {
				e.split = false
			}
			syntax.Walk(part, e.node)
		}
	}
	done = func() {
		for _, cs := range e.marked {
			delete(s.rules, cs)
		}
	}
	if e.over || e.size > maxFields {
		return done, errMemory
	}
	s.work(e.size + e.cost/8 + e.matching)
	return done, s.hold(e.size*2 + e.cost)
}

// assignments notes the variables that a word assigns.
func (e *estimate) assignments(w *syntax.Word) {
	if w == nil {
		return
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		if pe, ok := n.(*syntax.ParamExp); ok && pe.Param != nil && assigns(pe) {
			if e.assigned == nil {
				e.assigned = map[string]int64{}
			}
			e.assigned[pe.Param.Value] = e.fallback(pe.Exp.Word)
		}
		return true
	})
}

func assigns(pe *syntax.ParamExp) bool {
	return pe.Exp != nil && (pe.Exp.Op == syntax.AssignUnset || pe.Exp.Op == syntax.AssignUnsetOrNull)
}

// fallback is what a variable may be assigned: the text of the word and of its variables. Where that is not known yet, it
// is the most that a variable holds.
func (e *estimate) fallback(w *syntax.Word) int64 {
	total := int64(0)
	if w == nil {
		return 0
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			total += int64(len(n.Value))
		case *syntax.SglQuoted:
			total += 2 * int64(len(n.Value))
		case *syntax.ParamExp:
			if n.Param == nil {
				break
			}
			if _, again := e.assigned[n.Param.Value]; again || n.Exp != nil || n.Repl != nil || n.Excl {
				total += maxValue
			}
			total += int64(contentOf(environ{e.s}.Get(n.Param.Value)))
		case *syntax.CmdSubst:
			total += maxValue
			return false
		}
		return true
	})
	return min(total, maxValue)
}

func (e *estimate) node(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Lit:
		e.add(int64(len(n.Value)))
	case *syntax.SglQuoted:
		e.add(int64(len(n.Value)) * 2)
	case *syntax.ArithmExp:
		e.add(32)
	case *syntax.ParamExp:
		e.param(n)
	case *syntax.CmdSubst:
		if e.split {
			e.rule(n, captureRule{left: maxValue, split: true})
		}
		return false
	}
	return true
}

func (e *estimate) add(n int64) {
	if e.size += n; e.size < 0 {
		e.size = math.MaxInt64 / 4
	}
}

func (e *estimate) rule(cs *syntax.CmdSubst, r captureRule) {
	if e.s.rules == nil {
		e.s.rules = map[*syntax.CmdSubst]captureRule{}
	}
	e.s.rules[cs] = r
	e.marked = append(e.marked, cs)
}

// param counts one ${...}: its value, times what its operators may make of it.
func (e *estimate) param(pe *syntax.ParamExp) {
	if pe.Param == nil {
		return
	}
	vr := environ{e.s}.Get(pe.Param.Value)
	value := int64(contentOf(vr))
	if !assigns(pe) { // what one assigns is counted by its parts
		value = max(value, e.assigned[pe.Param.Value])
	}
	if pe.Excl || vr.Kind == expand.NameRef {
		value = max(value, e.s.vars.size)
	}
	e.add(value)
	if e.split {
		e.cost += fieldCost * (1 + e.s.separators(vr))
	}
	e.cost += 48 * int64(len(vr.List)+len(vr.Map))
	if pe.Slice != nil {
		e.cost += 5 * value
	}
	if pe.Exp != nil && pe.Exp.Word != nil {
		switch pe.Exp.Op {
		case syntax.RemSmallPrefix, syntax.RemLargePrefix, syntax.RemSmallSuffix, syntax.RemLargeSuffix:
			e.pattern(pe.Exp.Word, value)
		case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll, syntax.OtherParamOps:
			e.add(7 * value)
		}
	}
	if pe.Repl != nil {
		e.pattern(pe.Repl.Orig, value)
		with := e.weight(pe.Repl.With)
		if pe.Repl.All {
			e.cost += 96 * value // a position for every match
			if with > 0 && value+1 > maxFields/with {
				e.over = true
				return
			}
			with *= value + 1
		}
		e.add(with)
	}
}

// pattern counts what matching a value takes.
func (e *estimate) pattern(w *syntax.Word, value int64) {
	n := e.weight(w)
	if n > maxPattern || n*value > maxMatching {
		e.over = true
	}
	e.cost += 256 * n
	e.matching += n * value
}

// weight is at most how long a word expands to: its text and its variables. Substitutions in it may print only a little.
func (e *estimate) weight(w *syntax.Word) int64 {
	total := int64(0)
	if w == nil {
		return 0
	}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			total += int64(len(n.Value))
		case *syntax.SglQuoted:
			total += int64(len(n.Value))
		case *syntax.ParamExp:
			if n.Param != nil {
				total += max(int64(contentOf(environ{e.s}.Get(n.Param.Value))), e.assigned[n.Param.Value])
			}
		case *syntax.CmdSubst:
			total += substPrefix
			e.rule(n, captureRule{left: substPrefix})
			return false
		}
		return true
	})
	return total
}

// separators is at most how many fields a value is split into, less one.
func (s *Shell) separators(vr expand.Variable) int64 {
	ifs := s.value("IFS")
	total := int64(len(vr.List) + len(vr.Map))
	for _, text := range vr.List {
		total += separators(text, ifs)
	}
	for _, text := range vr.Map {
		total += separators(text, ifs)
	}
	return total + separators(vr.Str, ifs)
}

func separators(text, ifs string) int64 {
	total := int64(0)
	for i := range len(ifs) {
		total += int64(strings.Count(text, ifs[i:i+1]))
	}
	return total
}

// contentOf is the bytes of a variable's value, joined.
func contentOf(vr expand.Variable) int {
	n := len(vr.Str)
	for _, s := range vr.List {
		n += len(s) + 1
	}
	for k, s := range vr.Map {
		n += len(k) + len(s) + 2
	}
	return n
}
