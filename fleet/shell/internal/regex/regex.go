// Package regex runs the regular expressions of simulated containers within bounds: a compiled expression has a
// largest size, a search a largest amount of work, and the matches of a line are found one at a time, so that
// whoever asks can stop between them.
//
// It is package regexp otherwise, with its syntax; it knows nothing of grep or sed. Packages shell and lang call it.
package regex

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"sync"
	"unicode/utf8"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// Limits of one expression and of one search in a text.
const (
	MaxExpr    = 16 << 10 // bytes of an expression
	maxProgram = 10_000   // instructions
	maxThreads = 1 << 20  // instructions times groups: what a search keeps at most
	maxWork    = 1 << 25  // bytes times instructions: about a second
	maxAtOnce  = 1 << 22  // bytes squared times instructions for which all matches are found in one go
)

// Memory that is counted: for each byte of an expression while it is compiled (a class such as \pL has some
// 1,400 runes); for each expression, and for each instruction times group of it, after that.
const (
	perRegexp = 8 << 10
	perByte   = 2 << 10
	perThread = 64
)

var (
	errSize = errors.New("regular expression too big")
	errWork = errors.New("line too long for this regular expression")
)

// Regexp is a compiled expression. Safe for concurrent use.
type Regexp struct {
	re   *regexp.Regexp
	more func() *regexp.Regexp // finds a match after the first character of a text
	size int                   // instructions
}

// Compile compiles an expression. What it takes counts in mem, which is the command's: it is not given back before.
func Compile(expr string, mem *budget.Scope) (*Regexp, error) {
	if len(expr) > MaxExpr {
		return nil, errSize
	}
	during := int64(len(expr)) * perByte
	if err := mem.Take(during); err != nil {
		return nil, err
	}
	defer mem.Give(during)
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := size(tree)
	threads := n * (tree.MaxCap() + 1)
	if n > maxProgram || threads > maxThreads {
		return nil, errSize
	}
	if err := mem.Take(perRegexp + int64(threads)*perThread); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	inner := tree.String() // not expr, in which a \Q would quote what follows it
	more := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + inner + `)`) })
	return &Regexp{re, more, n + 8}, nil
}

// size is about how many instructions an expression compiles to; repetitions are counted out.
func size(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 64
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), 2*maxProgram)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min, re.Max, 1), 2*maxProgram)
	}
	return n
}

// Work is about how much looking for a match in a text takes, in the time that a byte of plain text takes.
func (r *Regexp) Work(text string) int64 {
	return perSearch + int64(len(text))*int64(min(r.size, 64))/8
}

// perSearch is the least a search takes.
const perSearch = 64

func (r *Regexp) affordable(text string) error {
	if len(text) > maxWork/r.size {
		return errWork
	}
	return nil
}

// Match says whether the text has a match.
func (r *Regexp) Match(text string) (bool, error) {
	if err := r.affordable(text); err != nil {
		return false, err
	}
	return r.re.MatchString(text), nil
}

// Find is the first match: where it and its groups begin and end, as regexp.FindStringSubmatchIndex has it; nil: none.
func (r *Regexp) Find(text string) ([]int, error) {
	if err := r.affordable(text); err != nil {
		return nil, err
	}
	return r.re.FindStringSubmatchIndex(text), nil
}

// Each calls f with every match in order, until f fails. It finds what regexp.FindAllStringSubmatchIndex finds.
func (r *Regexp) Each(text string, f func(m []int) error) error {
	if err := r.affordable(text); err != nil {
		return err
	}
	if len(text) < 1<<10 && len(text)*len(text)*r.size <= maxAtOnce {
		for _, m := range r.re.FindAllStringSubmatchIndex(text, -1) {
			if err := f(m); err != nil {
				return err
			}
		}
		return nil
	}
	for at, end := 0, -1; at <= len(text); {
		m := r.from(text, at)
		if m == nil {
			return nil
		}
		again := m[1] == at && m[0] == end // an empty match right after another is none
		if m[1] == at {
			_, width := utf8.DecodeRuneInString(text[at:])
			at += max(width, 1)
		} else {
			at = m[1]
		}
		end = m[1]
		if again {
			continue
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// from is the first match at or after a position. The character before it is looked at, as \b and ^ do.
func (r *Regexp) from(text string, at int) []int {
	if at == 0 {
		return r.re.FindStringSubmatchIndex(text)
	}
	_, width := utf8.DecodeLastRuneInString(text[:at])
	before := at - width
	m := r.more().FindStringSubmatchIndex(text[before:])
	if m == nil {
		return nil
	}
	m = m[2:] // the first group is the match
	for i := range m {
		if m[i] >= 0 {
			m[i] += before
		}
	}
	return m
}
