package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
)

// edit goes around source[from:to]: before it and behind it.
type edit struct {
	from, to       int
	before, behind string
}

// switchOff returns what to write around the statement, or around its condition, so that it has no effect, or expr has it where
// expr is not "", while flag is true. While flag is false the statement does what it did. Edits stay on their lines, so that
// failures of the mutant point into the real file, and each leaves what it surrounds whole, so that several may surround one
// statement.
func (s statement) switchOff(source []byte, flag, expr string) (edit, error) {
	if expr != "" {
		if _, err := parser.ParseExpr("f(" + expr + ")"); err != nil { // several values may be returned
			return edit{}, fmt.Errorf("%q is not an expression", expr)
		}
	}
	switch n := s.node.(type) {
	case *ast.IfStmt:
		return s.condition(n.Cond, flag, expr), nil
	case *ast.CaseClause:
		if !s.tagless || len(n.List) != 1 {
			return edit{}, errors.New("only a case with one condition, of a switch without a tag, can be switched off")
		}
		return s.condition(n.List[0], flag, expr), nil
	case *ast.ReturnStmt:
		if expr != "" {
			return s.around("if "+flag+" { return "+expr+" }; ", ""), nil
		}
		return s.skip(flag), nil
	case *ast.AssignStmt:
		return s.assignment(n, source, flag, expr)
	case *ast.DeclStmt, *ast.CommClause, *ast.EmptyStmt, *ast.LabeledStmt:
		return edit{}, errors.New("a declaration, a label or a case of a select cannot be switched off")
	}
	if expr != "" {
		return edit{}, errors.New("only a condition, a return or an assignment can take an expression")
	}
	return s.skip(flag), nil
}

// condition makes cond never hold, or expr hold instead of it.
func (s statement) condition(cond ast.Expr, flag, expr string) edit {
	e := edit{s.offset(cond.Pos()), s.offset(cond.End()), "(!" + flag + " && (", "))"}
	if expr != "" {
		e.before = "(" + flag + " && (" + expr + ") || !" + flag + " && ("
	}
	return e
}

// assignment skips n or assigns expr instead. A definition is made as it was, since only it knows the types of what it defines:
// its right side is evaluated in the mutant too.
func (s statement) assignment(n *ast.AssignStmt, source []byte, flag, expr string) (edit, error) {
	switch {
	case expr == "" && n.Tok == token.DEFINE:
		return edit{}, errors.New("the variables it defines are needed: say what to assign with -> EXPR")
	case expr == "":
		return s.skip(flag), nil
	}
	left := string(source[s.offset(n.Lhs[0].Pos()):s.offset(n.Lhs[len(n.Lhs)-1].End())])
	instead := "if " + flag + " { " + left + " = " + expr + " }"
	if n.Tok == token.DEFINE {
		return s.around("", "; "+instead), nil
	}
	return s.around(instead+" else { ", " }"), nil
}

// skip leaves the statement where it is, unreached.
func (s statement) skip(flag string) edit { return s.around("if !"+flag+" { ", " }") }

func (s statement) around(before, behind string) edit {
	return edit{s.offset(s.node.Pos()), s.offset(s.node.End()), before, behind}
}

func (s statement) offset(p token.Pos) int { return int(p - s.base) }

// withEdits returns the source with all the edits. Of two that surround the same, the later is the inner one.
func withEdits(source []byte, edits []edit) []byte {
	type insert struct {
		at   int
		text string
	}
	var all []insert
	for _, e := range edits {
		all = append(all, insert{e.from, e.before})
	}
	for _, e := range slices.Backward(edits) {
		all = append(all, insert{e.to, e.behind})
	}
	slices.SortStableFunc(all, func(a, b insert) int { return cmp.Compare(a.at, b.at) })
	var out []byte
	from := 0
	for _, i := range all {
		out = append(append(out, source[from:i.at]...), i.text...)
		from = i.at
	}
	return append(out, source[from:]...)
}
