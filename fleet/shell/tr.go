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
	set := trSet(c.args[0])
	var to []rune
	if len(c.args) == 2 {
		to = trSet(c.args[1])
	}
	in := func(r rune) bool { return slices.Contains(set, r) != c.opts.has('c') }
	squeeze := in
	if len(to) > 0 {
		squeeze = func(r rune) bool { return slices.Contains(to, r) }
	}
	var last rune = -1
	return c.translate(func(r rune) rune {
		switch {
		case c.opts.has('d') && in(r):
			return -1
		case !c.opts.has('d') && len(to) > 0 && in(r):
			i := slices.Index(set, r)
			if i < 0 || i >= len(to) {
				i = len(to) - 1
			}
			r = to[i]
		}
		if c.opts.has('s') && r == last && squeeze(r) {
			return -1
		}
		last = r
		return r
	})
}

// translate puts standard input through f, a chunk at a time; a negative rune is left out.
func (c *call) translate(f func(rune) rune) int {
	in := bufio.NewReader(c.stdin)
	for {
		var out strings.Builder
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
			if r = f(r); r >= 0 {
				out.WriteRune(r)
			}
		}
		c.print(out.String())
	}
}

// trSet expands ranges, classes and escapes.
func trSet(text string) []rune {
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
	var set []rune
	for i := 0; i < len(runes); i++ {
		if runes[i] == '\\' && i+1 < len(runes) {
			i++
			set = append(set, trEscape(runes[i]))
			continue
		}
		if i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] >= runes[i] && runes[i+2]-runes[i] < 65536 && runes[i+2] != '\\' {
			for r := runes[i]; r <= runes[i+2]; r++ {
				set = append(set, r)
			}
			i += 2
			continue
		}
		set = append(set, runes[i])
	}
	return set
}

func trEscape(r rune) rune {
	if i := strings.IndexRune("abfnrtv0", r); i >= 0 {
		return rune("\a\b\f\n\r\t\v\x00"[i])
	}
	return r
}
