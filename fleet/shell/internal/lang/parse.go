package lang

import (
	"errors"
	"io"
	"iter"
	"runtime"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Limits of what is parsed. The parser and the evaluation of a tree recurse, and a Go stack
// that overflows takes the whole process with it: so depth is bounded before it gets there.
const (
	MaxScript = 1 << 20 // bytes of one script
	maxFrames = 5000    // stack frames, about 2 MiB
	maxDepth  = 2000    // levels of one syntax tree
	readChunk = 64      // bytes the parser gets between two checks of the stack
)

var (
	errScriptSize = errors.New("script too large")
	errNesting    = errors.New("nesting too deep")
	errProcSubst  = errors.New("process substitution is not supported")
	errCoproc     = errors.New("coproc is not supported")
)

// guarded feeds the parser and stops it when it has recursed too deep or read too much.
type guarded struct {
	from io.Reader
	left int
	mem  *budget.Scope // the tree of the statement that is read counts here
	held int64
}

// next gives back what the statement before took.
func (g *guarded) next() {
	g.mem.Give(g.held)
	g.held = 0
}

func (g *guarded) Read(b []byte) (int, error) {
	var pc [1]uintptr
	if runtime.Callers(maxFrames, pc[:]) > 0 {
		return 0, errNesting
	}
	if g.left <= 0 {
		return 0, errScriptSize
	}
	n, err := g.from.Read(b[:min(len(b), readChunk, g.left)])
	g.left -= n
	cost := sourceCost(b[:n])
	if g.mem.Take(cost) != nil {
		return 0, errMemory
	}
	g.held += cost
	return n, err
}

// statements parses src one complete statement at a time, so that what comes before a
// syntax error runs, as in other shells.
func statements(src string, mem *budget.Scope) iter.Seq2[*syntax.Stmt, error] {
	return func(yield func(*syntax.Stmt, error) bool) {
		p := syntax.NewParser(syntax.Variant(syntax.LangBash))
		over := false
		in := &guarded{from: strings.NewReader(src), left: MaxScript, mem: mem}
		defer in.next()
		// Not a range loop: after an error the parser's iterator goes on once too often.
		p.StmtsSeq(in)(func(st *syntax.Stmt, err error) bool {
			if over {
				return false
			}
			if err == nil {
				err = accept(st)
			}
			over = !yield(st, err) || err != nil
			in.next()
			return !over
		})
	}
}

// accept refuses trees that cannot be run here and makes those that can ready to run.
func accept(st *syntax.Stmt) error {
	a := acceptor{verbatim: map[*syntax.Word]bool{}}
	syntax.Walk(st, a.visit)
	return a.err
}

type acceptor struct {
	depth    int
	err      error
	verbatim map[*syntax.Word]bool // words whose backslashes are not quoting
}

func (a *acceptor) visit(n syntax.Node) bool {
	if n == nil {
		a.depth--
		return true
	}
	if a.depth++; a.depth > maxDepth {
		a.err = errNesting
	}
	switch n := n.(type) {
	case *syntax.ProcSubst:
		a.err = errProcSubst
	case *syntax.CoprocClause:
		a.err = errCoproc
	case *syntax.Redirect:
		a.verbatim[n.Hdoc] = true
	case *syntax.BinaryTest:
		if w, ok := n.Y.(*syntax.Word); ok && n.Op == syntax.TsReMatch {
			a.verbatim[w] = true
		}
	case *syntax.Word:
		if !a.verbatim[n] {
			n.Parts = quoteEscapes(n.Parts)
		}
	}
	if a.err != nil {
		a.depth-- // a refused node gets no closing call
		return false
	}
	return true
}

// quoteEscapes turns the backslash escapes of unquoted text into quoted parts. The expand
// package leaves them in where it expands to one string (assignments, redirections, case).
func quoteEscapes(parts []syntax.WordPart) []syntax.WordPart {
	var out []syntax.WordPart
	for i, part := range parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || !strings.Contains(lit.Value, `\`) {
			if out != nil {
				out = append(out, part)
			}
			continue
		}
		if out == nil {
			out = append(out, parts[:i]...)
		}
		out = appendEscaped(out, lit)
	}
	if out == nil {
		return parts
	}
	return out
}

func appendEscaped(out []syntax.WordPart, lit *syntax.Lit) []syntax.WordPart {
	text := lit.Value
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 || i == len(text)-1 {
			break
		}
		if i > 0 {
			out = append(out, &syntax.Lit{ValuePos: lit.ValuePos, ValueEnd: lit.ValueEnd, Value: text[:i]})
		}
		_, size := utf8.DecodeRuneInString(text[i+1:])
		out = append(out, &syntax.SglQuoted{Left: lit.ValuePos, Right: lit.ValueEnd, Value: text[i+1 : i+1+size]})
		text = text[i+1+size:]
	}
	if text == "" {
		return out
	}
	return append(out, &syntax.Lit{ValuePos: lit.ValuePos, ValueEnd: lit.ValueEnd, Value: text})
}
