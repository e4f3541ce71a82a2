package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
)

// edit replaces source[from:to].
type edit struct {
	from, to int
	text     string
}

// switchOff returns the source without the effect of the statement, or with expr in its place where expr
// is not "". Edits stay on their lines, so that failures of the mutant point into the real file.
func (s statement) switchOff(source []byte, expr string) ([]byte, error) {
	if expr != "" {
		if _, err := parser.ParseExpr("f(" + expr + ")"); err != nil { // several values may be returned
			return nil, fmt.Errorf("%q is not an expression", expr)
		}
	}
	edits, err := s.edits(source, expr)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(source)
	for _, e := range slices.Backward(edits) {
		out = slices.Replace(out, e.from, e.to, []byte(e.text)...)
	}
	return out, nil
}

// edits are in order of their places in the source.
func (s statement) edits(source []byte, expr string) ([]edit, error) {
	switch n := s.node.(type) {
	case *ast.IfStmt:
		return s.condition(n.Cond, expr), nil
	case *ast.CaseClause:
		if !s.tagless || len(n.List) != 1 {
			return nil, errors.New("only a case with one condition, of a switch without a tag, can be switched off")
		}
		return s.condition(n.List[0], expr), nil
	case *ast.ReturnStmt:
		if expr == "" {
			return s.skip(), nil
		}
		return s.instead("return " + expr), nil
	case *ast.AssignStmt:
		return s.assignment(n, source, expr)
	case *ast.DeclStmt, *ast.CommClause, *ast.EmptyStmt, *ast.LabeledStmt:
		return nil, errors.New("a declaration, a label or a case of a select cannot be switched off")
	}
	if expr != "" {
		return nil, errors.New("only a condition, a return or an assignment can take an expression")
	}
	return s.skip(), nil
}

// condition makes cond never hold, or expr hold instead of it.
func (s statement) condition(cond ast.Expr, expr string) []edit {
	if expr == "" {
		expr = "false"
	}
	from, to := s.offset(cond.Pos()), s.offset(cond.End())
	return []edit{{from, from, "(" + expr + ") && (true || ("}, {to, to, "))"}}
}

// assignment skips n or assigns expr instead.
func (s statement) assignment(n *ast.AssignStmt, source []byte, expr string) ([]edit, error) {
	switch {
	case expr == "" && n.Tok == token.DEFINE:
		return nil, errors.New("the variables it defines are needed: say what to assign with -> EXPR")
	case expr == "":
		return s.skip(), nil
	}
	left := string(source[s.offset(n.Lhs[0].Pos()):s.offset(n.Lhs[len(n.Lhs)-1].End())])
	if n.Tok != token.DEFINE {
		return s.instead(left + " = " + expr), nil
	}
	// The old value is assigned after the definition, where it is not reached.
	at, tok := s.offset(n.Pos()), s.offset(n.TokPos)
	return []edit{
		{at, at, left + " := " + expr + "; if false { "},
		{tok, tok + len(":="), "="},
		{s.offset(n.End()), s.offset(n.End()), " }"},
	}, nil
}

// skip leaves the statement where it is, unreached.
func (s statement) skip() []edit { return s.instead("") }

// instead puts another statement after the unreached one.
func (s statement) instead(other string) []edit {
	from, to := s.offset(s.node.Pos()), s.offset(s.node.End())
	if other != "" {
		other = "; " + other
	}
	return []edit{{from, from, "if false { "}, {to, to, " }" + other}}
}

func (s statement) offset(p token.Pos) int { return int(p - s.base) }
