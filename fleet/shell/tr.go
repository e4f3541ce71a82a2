package shell

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"
)

// tr replaces, deletes or squeezes characters.
func tr(_ context.Context, c *call) int {
	if len(c.args) == 0 || len(c.args) > 2 {
		return c.usage()
	}
	size := int64(0)
	for _, arg := range c.args {
		size += 32 * int64(len(arg))
	}
	if c.mem.Take(size) != nil {
		return 1
	}
	set := parseRuneSet(c.args[0])
	var to runeSet
	if len(c.args) == 2 {
		to = parseRuneSet(c.args[1])
	}
	in := func(r rune) bool { return (set.index(r) >= 0) != c.opts.has('c') }
	squeeze := in
	if to.size > 0 {
		squeeze = func(r rune) bool { return to.index(r) >= 0 }
	}
	var last rune = -1
	return c.translate(len(set.ranges)+len(to.ranges), func(r rune) rune {
		switch {
		case c.opts.has('d') && in(r):
			return -1
		case !c.opts.has('d') && to.size > 0 && in(r):
			i := set.index(r)
			if i < 0 || i >= to.size {
				i = to.size - 1
			}
			r = to.at(i)
		}
		if c.opts.has('s') && r == last && squeeze(r) {
			return -1
		}
		last = r
		return r
	})
}

// translate puts standard input through f, which looks at a number of ranges, a chunk at a time; a negative rune is left out.
func (c *call) translate(ranges int, f func(rune) rune) int {
	in := bufio.NewReader(c.stdin)
	for {
		var out strings.Builder
		rare := int64(0) // characters that are looked for in every range
		for first := true; first || in.Buffered() > 0; first = false {
			r, size, err := in.ReadRune()
			if err != nil {
				c.print(out.String())
				if err == io.EOF {
					return 0
				}
				return c.broken("read", err)
			}
			if r == '\uFFFD' && size == 1 { // not UTF-8: leave the byte as it is
				_ = in.UnreadRune()
				b, _ := in.ReadByte()
				out.WriteByte(b)
				continue
			}
			if r >= 128 {
				rare++
			}
			if r = f(r); r >= 0 {
				out.WriteRune(r)
			}
		}
		if err := c.work(rare * int64(ranges)); err != nil {
			return 1
		}
		c.print(out.String())
	}
}

// runeSet is the characters of an argument in order, as ranges: one may have as many as there are.
type runeSet struct {
	ranges []runeRange
	size   int
	ascii  [128]int // index of each, plus 1
}

// runeRange is from lo to hi, the first being the character number at of its set.
type runeRange struct {
	lo, hi rune
	at     int
}

func (s *runeSet) add(lo, hi rune) {
	for r := lo; r <= min(hi, 127); r++ {
		if s.ascii[r] == 0 {
			s.ascii[r] = s.size + int(r-lo) + 1
		}
	}
	s.ranges = append(s.ranges, runeRange{lo, hi, s.size})
	s.size += int(hi-lo) + 1
}

// index is where a character comes first; -1: it is not in the set.
func (s *runeSet) index(r rune) int {
	if r < 128 {
		return s.ascii[r] - 1
	}
	for _, x := range s.ranges {
		if r >= x.lo && r <= x.hi {
			return x.at + int(r-x.lo)
		}
	}
	return -1
}

// at is the character at an index.
func (s *runeSet) at(i int) rune {
	n, found := slices.BinarySearchFunc(s.ranges, i, func(x runeRange, i int) int { return x.at - i })
	if !found {
		n--
	}
	return s.ranges[n].lo + rune(i-s.ranges[n].at)
}

// parseRuneSet understands ranges, classes and escapes.
func parseRuneSet(text string) runeSet {
	classes := map[string]string{
		"[:lower:]": "abcdefghijklmnopqrstuvwxyz", "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "[:digit:]": "0123456789",
		"[:space:]": " \t\n\v\f\r", "[:blank:]": " \t",
		"[:punct:]": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
	}
	classes["[:alpha:]"] = classes["[:upper:]"] + classes["[:lower:]"]
	classes["[:alnum:]"] = classes["[:digit:]"] + classes["[:alpha:]"]
	for name, chars := range classes {
		text = strings.ReplaceAll(text, name, strings.NewReplacer(`\`, `\\`, "-", `\-`).Replace(chars))
	}
	runes := []rune(text)
	var set runeSet
	for i := 0; i < len(runes); i++ {
		switch lo := runes[i]; {
		case lo == '\\' && i+1 < len(runes):
			i++
			set.add(trEscape(runes[i]), trEscape(runes[i]))
		case i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] >= lo && runes[i+2] != '\\':
			set.add(lo, runes[i+2])
			i += 2
		default:
			set.add(lo, lo)
		}
	}
	return set
}

func trEscape(r rune) rune {
	if i := strings.IndexRune("abfnrtv0", r); i >= 0 {
		return rune("\a\b\f\n\r\t\v\x00"[i])
	}
	return r
}
