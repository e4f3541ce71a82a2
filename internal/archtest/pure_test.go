package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// worldly are packages that reach outside the program, or are different each time. A pure package imports none of them.
var worldly = []string{
	"os", "os/exec", "os/signal", "os/user", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "plugin",
}

// clocks are functions of package time that read or wait for the clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// anyOrder marks a range over a map whose order does not matter though the check cannot see it: the comment
// "//archtest:any-order REASON" on the line of the statement or above it.
const anyOrder = "//archtest:any-order "

// TestPureIsPure reads the syntax trees of the pure packages: the same input gives the same output, and nothing else happens.
func TestPureIsPure(t *testing.T) {
	exports := exportData(t)
	for _, p := range list(t, "./...") {
		if Rules[p.path()].Ring != Pure || Rules[p.path()].Tool {
			continue
		}
		dir := filepath.Join("..", "..", filepath.FromSlash(p.path()))
		fset := token.NewFileSet()
		var files []*ast.File
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		unordered := 0
		for _, problem := range impurities(t, p.ImportPath, fset, files, exports) {
			if strings.Contains(problem, "ranges over a map") && Rules[p.path()].Unordered {
				unordered++
				continue
			}
			t.Error(problem)
		}
		if Rules[p.path()].Unordered && unordered == 0 {
			t.Errorf("%s: no range over a map needs to be looked at any more: take Unordered out of its row", p.path())
		}
	}
}

// exportData finds the compiled form of every package that the module uses, for the types in it.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	var pure []string
	for path, rule := range Rules {
		if rule.Ring == Pure {
			pure = append(pure, "./"+path)
		}
	}
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, pure...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	at := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		at[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(at[path]) }
}

// impurities are what is wrong in the files of one package.
func impurities(t *testing.T, path string, fset *token.FileSet, files []*ast.File, exports importer.Lookup) []string {
	t.Helper()
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", exports)}
	if _, err := config.Check(path, fset, files, info); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	var out []string
	for _, f := range files {
		c := &purity{fset: fset, info: info, reasons: make(map[int]bool)}
		for _, group := range f.Comments {
			for _, line := range group.List {
				if reason, ok := strings.CutPrefix(line.Text, anyOrder); ok && len(strings.TrimSpace(reason)) > 10 {
					at := fset.Position(line.Pos()).Line
					c.reasons[at], c.reasons[at+1] = true, true
				}
			}
		}
		for _, i := range f.Imports {
			if name, err := strconv.Unquote(i.Path.Value); err == nil && slices.Contains(worldly, name) {
				c.add(i, "imports "+name)
			}
		}
		ast.Inspect(f, c.visit)
		out = append(out, c.problems...)
	}
	return out
}

// purity goes through one file.
type purity struct {
	fset     *token.FileSet
	info     *types.Info
	reasons  map[int]bool // lines with a reason why the order of a map does not matter
	problems []string
}

func (c *purity) add(n ast.Node, what string) {
	at := c.fset.Position(n.Pos())
	c.problems = append(c.problems, fmt.Sprintf("%s:%d: a pure package %s", strings.TrimPrefix(filepath.ToSlash(at.Filename), "../../"), at.Line, what))
}

func (c *purity) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		c.add(n, "starts a goroutine")
	case *ast.SelectorExpr:
		if f, ok := c.info.Uses[n.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == "time" && f.Signature().Recv() == nil && slices.Contains(clocks, f.Name()) {
			c.add(n, "reads the clock: time."+f.Name())
		}
	case *ast.FuncDecl:
		if n.Body != nil {
			c.function(n.Body)
		}
	}
	return true
}

// function looks at the ranges over maps in a function.
func (c *purity) function(body *ast.BlockStmt) {
	sorted := c.sorted(body)
	ast.Inspect(body, func(n ast.Node) bool {
		r, ok := n.(*ast.RangeStmt)
		if !ok || !c.isMap(r.X) || c.reasons[c.fset.Position(r.Pos()).Line] {
			return true
		}
		if bad := c.ordered(r.Body.List, r, sorted); bad != nil {
			c.add(r, fmt.Sprintf("ranges over a map, and line %d may depend on the order: sort, or say why it does not with %s", c.fset.Position(bad.Pos()).Line, strings.TrimSpace(anyOrder)))
		}
		return true
	})
}

func (c *purity) isMap(e ast.Expr) bool {
	if call, ok := e.(*ast.CallExpr); ok { // maps.Keys and the like
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			f, ok := c.info.Uses[s.Sel].(*types.Func)
			return ok && f.Pkg() != nil && f.Pkg().Path() == "maps"
		}
	}
	t := c.info.TypeOf(e)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// sorted are the variables and fields that the function hands to a function whose name begins with Sort, by their text.
func (c *purity) sorted(body *ast.BlockStmt) map[string]bool {
	out := make(map[string]bool)
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			name = f.Sel.Name
			if x, ok := f.X.(*ast.Ident); ok && x.Name == "sort" {
				name = "Sort"
			}
		case *ast.Ident:
			name = f.Name
		}
		if strings.HasPrefix(strings.ToLower(name), "sort") {
			out[types.ExprString(call.Args[0])] = true
		}
		return true
	})
	return out
}

// ordered returns the first of the statements whose effect may depend on the order of the loop, nil if there is none. It
// knows what adds up in any order: sums, unions, extremes, sets and maps, slices that are sorted afterwards, and leaving with a
// constant.
func (c *purity) ordered(list []ast.Stmt, loop *ast.RangeStmt, sorted map[string]bool) ast.Node {
	for _, s := range list {
		if bad := c.statement(s, loop, sorted); bad != nil {
			return bad
		}
	}
	return nil
}

func (c *purity) statement(s ast.Stmt, loop *ast.RangeStmt, sorted map[string]bool) ast.Node {
	all := func(list ...ast.Stmt) ast.Node { return c.ordered(list, loop, sorted) }
	switch s := s.(type) {
	case nil, *ast.EmptyStmt, *ast.IncDecStmt:
		return nil
	case *ast.BranchStmt:
		if s.Tok == token.CONTINUE {
			return nil
		}
	case *ast.DeclStmt:
		return nil
	case *ast.BlockStmt:
		return all(s.List...)
	case *ast.IfStmt:
		if s.Init != nil {
			if bad := all(s.Init); bad != nil {
				return bad
			}
		}
		if bad := all(s.Body.List...); bad != nil {
			return bad
		}
		if s.Else != nil {
			return all(s.Else)
		}
		return nil
	case *ast.SwitchStmt:
		for _, clause := range s.Body.List {
			if bad := all(clause.(*ast.CaseClause).Body...); bad != nil {
				return bad
			}
		}
		return nil
	case *ast.ForStmt:
		return all(s.Body.List...)
	case *ast.RangeStmt:
		return all(s.Body.List...)
	case *ast.ReturnStmt:
		for _, v := range s.Results {
			if tv := c.info.Types[v]; tv.Value == nil && !tv.IsNil() {
				return s
			}
		}
		return nil
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") {
				return nil
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(f.Sel.Name, "Sort") && len(call.Args) > 0 && c.ofElement(call.Args[0], loop) {
				return nil
			}
		}
	case *ast.AssignStmt:
		return c.assignment(s, loop, sorted)
	}
	return s
}

// assignment looks at one that is in the loop.
func (c *purity) assignment(s *ast.AssignStmt, loop *ast.RangeStmt, sorted map[string]bool) ast.Node {
	switch s.Tok {
	case token.DEFINE:
		return nil
	case token.ADD_ASSIGN, token.SUB_ASSIGN, token.MUL_ASSIGN, token.OR_ASSIGN, token.AND_ASSIGN, token.XOR_ASSIGN:
		if b, ok := c.info.TypeOf(s.Lhs[0]).Underlying().(*types.Basic); ok && b.Info()&(types.IsString|types.IsFloat) == 0 {
			return nil
		}
		return s
	}
	for i, to := range s.Lhs {
		if c.inBody(to, loop) || c.ofElement(to, loop) {
			continue
		}
		if x, ok := to.(*ast.IndexExpr); ok && c.isMap(x.X) && (c.ofElement(x.Index, loop) && !c.isValue(x.Index, loop) || i < len(s.Rhs) && c.isConstant(s.Rhs[i])) {
			continue
		}
		if i < len(s.Rhs) && c.commutes(to, s.Rhs[i], sorted) {
			continue
		}
		return s
	}
	return nil
}

// ofElement says whether the expression is the loop's key or value, or part of it: each is met once.
func (c *purity) ofElement(e ast.Expr, loop *ast.RangeStmt) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
			continue
		case *ast.CallExpr: // a conversion
			if tv := c.info.Types[x.Fun]; tv.IsType() {
				e = x.Args[0]
				continue
			}
		case *ast.Ident:
			is := func(v ast.Expr) bool {
				id, ok := v.(*ast.Ident)
				return ok && id != nil && c.info.ObjectOf(id) != nil && c.info.ObjectOf(id) == c.info.ObjectOf(x)
			}
			return is(loop.Key) || is(loop.Value)
		}
		return false
	}
}

// isValue says whether the expression begins with the loop's value: two keys may have the same.
func (c *purity) isValue(e ast.Expr, loop *ast.RangeStmt) bool {
	if loop.Value == nil {
		return false
	}
	value := *loop
	value.Key = nil
	return c.ofElement(e, &value)
}

func (c *purity) isConstant(e ast.Expr) bool {
	tv := c.info.Types[e]
	if lit, ok := e.(*ast.CompositeLit); ok && len(lit.Elts) == 0 {
		return true
	}
	call, ok := e.(*ast.CallExpr)
	if ok {
		f, isName := call.Fun.(*ast.Ident)
		return isName && f.Name == "make"
	}
	return tv.Value != nil || tv.IsNil()
}

// inBody says whether the variable is of the loop's body: its own in each round.
func (c *purity) inBody(e ast.Expr, loop *ast.RangeStmt) bool {
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if _, isPointer := c.info.TypeOf(x.X).Underlying().(*types.Pointer); isPointer {
				return false
			}
			e = x.X
			continue
		case *ast.Ident:
			if x.Name == "_" {
				return true
			}
			o := c.info.ObjectOf(x)
			return o != nil && loop.Body.Pos() <= o.Pos() && o.Pos() < loop.Body.End()
		}
		return false
	}
}

// commutes says whether assigning the value gives the same in any order: an extreme, a constant, a disjunction of what was
// there and more, or an element of a slice that is sorted afterwards.
func (c *purity) commutes(to, value ast.Expr, sorted map[string]bool) bool {
	if c.isConstant(value) {
		return true
	}
	target := types.ExprString(to)
	switch v := value.(type) {
	case *ast.CallExpr:
		f, ok := v.Fun.(*ast.Ident)
		if !ok || len(v.Args) == 0 || types.ExprString(v.Args[0]) != target {
			return ok && (f.Name == "max" || f.Name == "min") && slices.ContainsFunc(v.Args, func(a ast.Expr) bool { return types.ExprString(a) == target })
		}
		return f.Name == "max" || f.Name == "min" || f.Name == "append" && sorted[target]
	case *ast.BinaryExpr:
		return (v.Op == token.LOR || v.Op == token.LAND) && types.ExprString(v.X) == target
	}
	return false
}

// The check itself must be able to fail, and to see what is fine.
func TestImpuritiesAreFound(t *testing.T) {
	exports := exportData(t)
	for _, c := range []struct {
		what, body string
		want       string // "": nothing is wrong
	}{
		{"the clock", "_ = time.Now()", "reads the clock: time.Now"},
		{"arithmetic with times", "_ = time.Unix(0, 0).Add(time.Second)", ""},
		{"a goroutine", "go func() {}()", "starts a goroutine"},
		{"a file", "_, _ = os.Open(\"x\")", "imports os"},
		{"a slice in the order of a map", "var out []string; for k := range m { out = append(out, k) }; _ = out", "ranges over a map"},
		{"a slice that is sorted", "var out []string; for k := range m { out = append(out, k) }; slices.Sort(out)", ""},
		{"the keys of a map", "for k := range maps.Keys(m) { println(k) }", "ranges over a map"},
		{"a sum", "n := 0; for _, v := range m { n += v }; _ = n", ""},
		{"a sum of fractions", "n := 0.5; for _, v := range m { n += float64(v) }; _ = n", "ranges over a map"},
		{"an extreme", "n := 0; for _, v := range m { n = max(n, v) }; _ = n", ""},
		{"the last", "n := 0; for _, v := range m { n = v }; _ = n", "ranges over a map"},
		{"another map", "to := map[string]int{}; for k, v := range m { to[k] = v + 1 }; _ = to", ""},
		{"a set", "to := map[int]bool{}; for _, v := range m { to[v] = true }; _ = to", ""},
		{"the other way round", "to := map[int]string{}; for k, v := range m { to[v] = k }; _ = to", "ranges over a map"},
		{"leaving with a constant", "f := func() bool { for _, v := range m { if v > 0 { return true } }; return false }; _ = f", ""},
		{"leaving with an element", "f := func() string { for k := range m { return k }; return \"\" }; _ = f", "ranges over a map"},
		{"a reason", "//archtest:any-order println is not part of the answer\n for k := range m { println(k) }", ""},
		{"no reason", "//archtest:any-order \n for k := range m { println(k) }", "ranges over a map"},
	} {
		imports := ""
		for _, name := range []string{"time", "os", "slices", "maps"} {
			if strings.Contains(c.body, name+".") {
				imports += "import \"" + name + "\"\n"
			}
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\n"+imports+"func do(m map[string]int) {\n"+c.body+"\n}\n", parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := impurities(t, "x", fset, []*ast.File{f}, exports)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: found %q, want %q", c.what, got, c.want)
		}
	}
}
