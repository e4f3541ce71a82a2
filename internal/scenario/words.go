package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// split cuts a line into words at spaces outside double quotes; the quotes go, and from a "#" that starts
// a word on, everything does.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, quoted := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
			inWord = true
		case quoted || r != ' ' && r != '\t' && r != '\r' && (r != '#' || inWord):
			word.WriteRune(r)
			inWord = true
		case r == '#':
			return words, nil
		case inWord:
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	if quoted {
		return nil, errors.New(`expected a closing "`)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// maxNames bounds what one line may make.
const maxNames = 10_000

// name is one name of a range, and the number that made it; -1 without one.
type name struct {
	text   string
	number int
}

// expand writes out names: "a,b", "n[00-15]", "r[1-2]-n[0-3]". Numbers are padded to the length of the
// first.
func expand(text string) ([]name, error) {
	var out []name
	for _, part := range strings.Split(text, ",") {
		names, err := expandOne(part)
		if err != nil {
			return nil, err
		}
		if out = append(out, names...); len(out) > maxNames {
			return nil, fmt.Errorf("%s: expected at most %d names", text, maxNames)
		}
	}
	return out, nil
}

func expandOne(text string) ([]name, error) {
	open := strings.LastIndexByte(text, '[')
	if open < 0 {
		if text == "" || strings.Contains(text, "]") {
			return nil, fmt.Errorf("%q: expected a name, or a range like n[00-15]", text)
		}
		return []name{{text, -1}}, nil
	}
	heads := []name{{}}
	if open > 0 {
		var err error
		if heads, err = expandOne(text[:open]); err != nil {
			return nil, err
		}
	}
	inner, tail, closed := strings.Cut(text[open+1:], "]")
	first, last, dash := strings.Cut(inner, "-")
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if !closed || !dash || err1 != nil || err2 != nil || from < 0 || to < from || strings.Contains(tail, "]") {
		return nil, fmt.Errorf("%q: expected a range like n[00-15]", text)
	}
	if to-from >= maxNames || (to-from+1)*len(heads) > maxNames {
		return nil, fmt.Errorf("%s: expected at most %d names", text, maxNames)
	}
	var out []name
	for _, h := range heads {
		for n := from; n <= to; n++ {
			out = append(out, name{fmt.Sprintf("%s%0*d%s", h.text, len(first), n, tail), n})
		}
	}
	return out, nil
}

// texts is the names alone.
func texts(text string) ([]string, error) {
	names, err := expand(text)
	var out []string
	for _, n := range names {
		out = append(out, n.text)
	}
	return out, err
}

// setters reads attributes of a T. A flag has no value; an attribute that is not in the table is offered
// to other, if there is one.
type setters[T any] struct {
	flags  map[string]func(*T, moment)
	values map[string]func(value string) (func(*T, moment), error)
	other  func(key, value string) (func(*T, moment), error) // nil function: not known
}

// parse reads words like "gpus=8" and "evictable" into edits, in order.
func (s setters[T]) parse(words []string) ([]func(*T, moment), error) {
	var out []func(*T, moment)
	for _, w := range words {
		set, err := s.one(w)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

func (s setters[T]) one(word string) (func(*T, moment), error) {
	key, value, hasValue := strings.Cut(word, "=")
	if set, ok := s.flags[key]; ok && !hasValue {
		return set, nil
	}
	if read, ok := s.values[key]; ok && hasValue {
		set, err := read(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		return set, nil
	}
	if s.other != nil && hasValue {
		if set, err := s.other(key, value); set != nil || err != nil {
			return set, err
		}
	}
	return nil, fmt.Errorf("%s: expected one of %s", word, strings.Join(s.known(), " "))
}

// known is what may be written, sorted.
func (s setters[T]) known() []string {
	var out []string
	for k := range s.flags {
		out = append(out, k)
	}
	for k := range s.values {
		out = append(out, k+"=")
	}
	return sorted(out)
}
