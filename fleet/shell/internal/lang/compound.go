package lang

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/internal/regex"
)

func (s *Shell) ifClause(cmd *syntax.IfClause) {
	for c := cmd; c != nil; c = c.Else {
		// An else branch is an IfClause without a condition.
		taken := len(c.Cond) == 0 || s.tested(c.Cond)
		if s.flow != flowNone {
			return
		}
		if taken {
			s.stmts(c.Then)
			return
		}
	}
	s.status = 0
}

func (s *Shell) whileClause(cmd *syntax.WhileClause) {
	last := 0
	s.loops++
	defer func() { s.loops-- }()
	for s.proceed() {
		ok := s.tested(cmd.Cond)
		if s.loopEnds() || ok == cmd.Until {
			break
		}
		s.stmts(cmd.Do)
		last = s.status
		if s.loopEnds() {
			break
		}
	}
	if s.flow == flowNone {
		s.status = last
	}
}

// loopEnds looks at why the body of a loop ended, and says whether the loop does too.
func (s *Shell) loopEnds() bool {
	switch s.flow {
	case flowNone:
		return false
	case flowBreak, flowContinue:
		again := s.flow == flowContinue && s.flowN <= 1
		if s.flowN--; s.flowN <= 0 {
			s.flow = flowNone
		}
		return !again
	}
	return true
}

func (s *Shell) forClause(cmd *syntax.ForClause) {
	s.loops++
	defer func() { s.loops-- }()
	switch loop := cmd.Loop.(type) {
	case *syntax.WordIter:
		items := s.params
		if loop.InPos.IsValid() {
			var ok bool
			if items, ok = s.fields(loop.Items); !ok {
				return
			}
		}
		if len(items) == 0 {
			s.status = 0
		}
		if cmd.Select {
			s.selectLoop(loop.Name.Value, items, cmd.Do)
			return
		}
		s.forEach(loop.Name.Value, items, cmd.Do)
	case *syntax.CStyleLoop:
		s.cLoop(loop, cmd.Do)
	}
}

func (s *Shell) forEach(name string, items []string, body []*syntax.Stmt) {
	for _, item := range items {
		if !s.proceed() || !s.setString(name, item) {
			return
		}
		s.stmts(body)
		if s.loopEnds() {
			return
		}
	}
}

func (s *Shell) cLoop(loop *syntax.CStyleLoop, body []*syntax.Stmt) {
	last := 0
	if loop.Init != nil {
		if _, ok := s.arithm(loop.Init); !ok {
			return
		}
	}
	for s.proceed() {
		if loop.Cond != nil {
			n, ok := s.arithm(loop.Cond)
			if !ok {
				return
			}
			if n == 0 {
				break
			}
		}
		s.stmts(body)
		last = s.status
		if s.loopEnds() {
			return
		}
		if loop.Post != nil {
			if _, ok := s.arithm(loop.Post); !ok {
				return
			}
		}
	}
	if s.flow == flowNone {
		s.status = last
	}
}

func (s *Shell) selectLoop(name string, items []string, body []*syntax.Stmt) {
	if !s.holdAll(items, 2) {
		return
	}
	var menu strings.Builder
	for i, item := range items {
		fmt.Fprintf(&menu, "%d) %s\n", i+1, item)
	}
	s.write(2, menu.String())
	for s.proceed() {
		s.write(2, "#? ")
		ctx, done := s.foreground()
		line, err := s.readLine(ctx, '\n', true, maxValue)
		done()
		if err != nil {
			s.status = 1
			return
		}
		choice := ""
		if n, _ := strconv.Atoi(strings.TrimSpace(line)); n > 0 && n <= len(items) {
			choice = items[n-1]
		}
		if !s.setString("REPLY", line) || !s.setString(name, choice) {
			return
		}
		s.stmts(body)
		if s.loopEnds() {
			return
		}
	}
}

func (s *Shell) caseClause(cmd *syntax.CaseClause) {
	value, ok := s.literal(cmd.Word)
	if !ok {
		return
	}
	ran, fall := false, false // fall: the item before ended in ;&
	defer func() {
		if !ran && s.flow == flowNone {
			s.status = 0
		}
	}()
	for _, item := range cmd.Items {
		if !fall && !s.anyMatches(item.Patterns, value) {
			if s.flow != flowNone {
				return
			}
			continue
		}
		ran = ran || len(item.Stmts) > 0
		s.stmts(item.Stmts)
		if s.flow != flowNone {
			return
		}
		switch item.Op {
		case syntax.Fallthrough:
			fall = true
		case syntax.Resume, syntax.ResumeKorn:
			fall = false
		default:
			return
		}
	}
}

func (s *Shell) anyMatches(patterns []*syntax.Word, value string) bool {
	for _, w := range patterns {
		pat, ok := s.pattern(w)
		if !ok {
			return false
		}
		if s.matches(pat, value) {
			return true
		}
	}
	return false
}

// matches says whether a whole string fits a shell pattern. A pattern that is malformed, or
// that needs !(...), matches nothing; neither does one that is too much work.
func (s *Shell) matches(pat, value string) bool {
	expr, err := pattern.Regexp(pat, pattern.EntireString|pattern.ExtendedOperators)
	if err != nil {
		return false
	}
	mem := s.mem.Sub()
	defer mem.Close()
	re, err := regex.Compile(expr, mem)
	if err != nil {
		return false
	}
	s.work(re.Work(value))
	ok, err := re.Match(value)
	return err == nil && ok
}

func (s *Shell) timeClause(cmd *syntax.TimeClause) {
	start := time.Now()
	if cmd.Stmt != nil {
		s.stmt(cmd.Stmt)
	}
	d := s.clock.Simulated(time.Since(start))
	if cmd.PosixFormat {
		s.write(2, fmt.Sprintf("real %.2f\nuser 0.00\nsys 0.00\n", d.Seconds()))
		return
	}
	s.write(2, fmt.Sprintf("\nreal\t%dm%.3fs\nuser\t0m0.000s\nsys\t0m0.000s\n", int(d.Minutes()), d.Seconds()-60*float64(int(d.Minutes()))))
}
