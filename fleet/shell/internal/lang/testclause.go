package lang

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/internal/regex"
)

// testClause is [[ ... ]].
func (s *Shell) testClause(cmd *syntax.TestClause) {
	s.status = 0
	ok := s.testExpr(cmd.X)
	if s.status == 0 {
		s.status = oneIf(!ok)
	}
}

func (s *Shell) testExpr(x syntax.TestExpr) bool {
	switch x := x.(type) {
	case *syntax.Word:
		text, _ := s.literal(x)
		return text != ""
	case *syntax.ParenTest:
		return s.testExpr(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return s.testNot(x.X)
		}
		w, ok := x.X.(*syntax.Word)
		text, expanded := s.literal(w)
		return ok && expanded && s.unary(x.Op.String(), text)
	case *syntax.BinaryTest:
		return s.testBinary(x)
	}
	return false
}

// testNot negates x. The parser takes all that follows a "!" as its operand, but it is meant
// for the first term only: ! a && b is (! a) && b. What is in parentheses is a ParenTest.
func (s *Shell) testNot(x syntax.TestExpr) bool {
	b, ok := x.(*syntax.BinaryTest)
	switch {
	case ok && b.Op == syntax.AndTest:
		return s.testNot(b.X) && s.testExpr(b.Y)
	case ok && b.Op == syntax.OrTest:
		return s.testNot(b.X) || s.testExpr(b.Y)
	}
	return !s.testExpr(x)
}

func (s *Shell) testBinary(x *syntax.BinaryTest) bool {
	switch x.Op {
	case syntax.AndTest:
		return s.testExpr(x.X) && s.testExpr(x.Y)
	case syntax.OrTest:
		return s.testExpr(x.X) || s.testExpr(x.Y)
	}
	left, ok1 := x.X.(*syntax.Word)
	right, ok2 := x.Y.(*syntax.Word)
	a, ok3 := s.literal(left)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	switch x.Op {
	case syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch:
		pat, ok := s.pattern(right)
		return ok && s.matches(pat, a) == (x.Op != syntax.TsNoMatch)
	}
	b, ok := s.literal(right)
	if !ok {
		return false
	}
	if x.Op == syntax.TsReMatch {
		return s.matchRegexp(a, b)
	}
	if op := x.Op.String(); strings.HasPrefix(op, "-") && op != "-nt" && op != "-ot" && op != "-ef" {
		return s.testArithm(a, op, b)
	}
	t := tester{shell: s}
	yes, err := t.binary(a, x.Op.String(), b)
	return err == nil && yes
}

// testArithm compares in [[ ]], where operands are expressions.
func (s *Shell) testArithm(a, op, b string) bool {
	x, ok := s.evalNumber(a)
	if !ok {
		return false
	}
	y, ok := s.evalNumber(b)
	return ok && compareNumbers(int64(x), op, int64(y))
}

func (s *Shell) matchRegexp(text, expr string) bool {
	mem := s.mem.Sub()
	defer mem.Close()
	re, err := regex.Compile(expr, mem)
	if err != nil {
		s.errorf("[[: invalid regular expression %q", expr)
		s.status = 2
		return false
	}
	s.work(re.Work(text))
	at, err := re.Find(text)
	if err != nil {
		s.errorf("[[: %v", err)
		s.status = 2
		return false
	}
	if at == nil {
		return false
	}
	m := make([]string, len(at)/2)
	for i := range m {
		if at[2*i] >= 0 {
			m[i] = text[at[2*i]:at[2*i+1]]
		}
	}
	return s.set("BASH_REMATCH", expand.Variable{Set: true, Kind: expand.Indexed, List: m})
}
