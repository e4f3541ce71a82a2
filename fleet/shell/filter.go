package shell

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// filterCommands change text on its way through.
func filterCommands() []command {
	return []command{
		{"basename", "", "FILE [SUFFIX]", basename},
		{"cut", "d:f:c:b:s", "-f LIST|-c LIST [-d DELIM] [-s] [FILE]...", cut},
		{"dirname", "", "FILE...", dirname},
		{"egrep", grepFlags, grepUsage, grep},
		{"fgrep", grepFlags, grepUsage, grep},
		{"grep", grepFlags, grepUsage, grep},
		{"sed", "nErie:", "[-nE] [-i] [-e] SCRIPT [FILE]...", sed},
		{"seq", "=", "[FIRST [STEP]] LAST", seq},
		{"sort", "nrufhk:t:o:", "[-nrufh] [-k FIELD] [-t SEP] [-o FILE] [FILE]...", sortLines},
		{"tr", "cds", "[-cds] SET1 [SET2]", tr},
		{"uniq", "cdui", "[-cdui] [INPUT]", uniq},
	}
}

func basename(_ context.Context, c *call) int {
	if len(c.args) == 0 || len(c.args) > 2 {
		return c.usage()
	}
	name := strings.TrimRight(c.args[0], "/")
	if name == "" && c.args[0] != "" {
		name = "/"
	} else {
		name = baseName(name)
	}
	if len(c.args) == 2 && name != c.args[1] {
		name = strings.TrimSuffix(name, c.args[1])
	}
	c.print(name + "\n")
	return 0
}

func dirname(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	for _, name := range c.args {
		trimmed := strings.TrimRight(name, "/")
		i := strings.LastIndexByte(trimmed, '/')
		switch {
		case trimmed == "" && name != "" || i == 0:
			name = "/"
		case i < 0:
			name = "."
		default:
			name = strings.TrimRight(trimmed[:i], "/")
		}
		c.print(name + "\n")
	}
	return 0
}

// span is a range of a cut list, from 1; an end of 0 is open.
type span struct{ from, to int }

func parseSpans(list string) ([]span, error) {
	var spans []span
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		s := span{1, 0}
		var err error
		if from != "" {
			s.from, err = strconv.Atoi(from)
		}
		switch {
		case !isRange:
			s.to = s.from
		case to != "" && err == nil:
			s.to, err = strconv.Atoi(to)
		}
		if err != nil || s.from < 1 || part == "" || part == "-" {
			return nil, fmt.Errorf("invalid list '%s'", list)
		}
		spans = append(spans, s)
	}
	return merged(spans), nil
}

// merged are the same ranges in order, none touching another, so that a line is cut in one pass.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.to == 0:
			return out
		case s.from > last.to+1:
			out = append(out, s)
		case s.to == 0 || s.to > last.to:
			last.to = s.to
		}
	}
	return out
}

// picker says of numbers that are asked for in order whether they are in a list.
type picker struct{ spans []span }

func (p *picker) picks(n int) bool {
	for len(p.spans) > 0 && p.spans[0].to > 0 && n > p.spans[0].to {
		p.spans = p.spans[1:]
	}
	return len(p.spans) > 0 && n >= p.spans[0].from
}

func cut(_ context.Context, c *call) int {
	fields := c.opts.has('f')
	list := c.opts.value('f', c.opts.value('c', c.opts.value('b', "")))
	if list == "" {
		return c.usage()
	}
	if err := c.mem.Take(16 * int64(len(list))); err != nil {
		return 1
	}
	spans, err := parseSpans(list)
	if err != nil {
		return c.fail("%v", err)
	}
	delim := c.opts.value('d', "\t")
	return c.inputs(c.args, func(_ string, r io.Reader) error {
		return c.eachLine(r, func(line string, last bool) error {
			if !fields {
				return c.line(cutRunes(line, spans), last)
			}
			if !strings.Contains(line, delim) {
				if c.opts.has('s') {
					return nil
				}
				return c.line(line, last)
			}
			return c.line(cutFields(line, delim, spans), last)
		})
	})
}

func cutFields(line, delim string, spans []span) string {
	var b strings.Builder
	p := picker{spans}
	n, any := 0, false
	for field := range strings.SplitSeq(line, delim) {
		if n++; !p.picks(n) {
			continue
		}
		if any {
			b.WriteString(delim)
		}
		b.WriteString(field)
		any = true
	}
	return b.String()
}

func cutRunes(line string, spans []span) string {
	var b strings.Builder
	p := picker{spans}
	n := 0
	for _, r := range line {
		if n++; p.picks(n) {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func uniq(_ context.Context, c *call) int {
	prev, n := "", 0
	flush := func() error {
		if n == 0 || c.opts.has('d') && n == 1 || c.opts.has('u') && n > 1 {
			return nil
		}
		if c.opts.has('c') {
			return c.line(leftPad(strconv.Itoa(n), 7)+" "+prev, false)
		}
		return c.line(prev, false)
	}
	same := func(a, b string) bool { return a == b || c.opts.has('i') && strings.EqualFold(a, b) }
	status := c.inputs(c.args, func(_ string, r io.Reader) error {
		return c.eachLine(r, func(line string, _ bool) error {
			if n > 0 && same(line, prev) {
				n++
				return nil
			}
			if err := flush(); err != nil {
				return err
			}
			prev, n = line, 1
			return nil
		})
	})
	_ = flush()
	return status
}

func seq(ctx context.Context, c *call) int {
	args, sep, pad := c.args, "\n", false
	for len(args) > 0 && (args[0] == "-w" || strings.HasPrefix(args[0], "-s")) {
		if args[0] == "-w" {
			pad, args = true, args[1:]
			continue
		}
		if sep, args = args[0][2:], args[1:]; sep == "" && len(args) > 0 {
			sep, args = args[0], args[1:]
		}
	}
	if len(args) == 0 || len(args) > 3 {
		return c.usage()
	}
	nums := []float64{1, 1, 1}
	decimals, width := 0, 0
	for i, a := range args {
		n, err := strconv.ParseFloat(a, 64)
		if err != nil {
			return c.fail("invalid number '%s'", a)
		}
		if _, frac, ok := strings.Cut(a, "."); ok {
			decimals = max(decimals, len(frac))
		}
		width = max(width, len(a))
		nums[[3][3]int{{2}, {0, 2}, {0, 1, 2}}[len(args)-1][i]] = n
	}
	if nums[1] == 0 {
		return c.fail("increment must not be 0")
	}
	if !pad {
		width = 0
	}
	return c.sequence(ctx, nums[0], nums[1], nums[2], decimals, width, sep)
}

// sequence prints numbers in batches, so that a long one neither waits nor fills memory.
func (c *call) sequence(ctx context.Context, first, step, last float64, decimals, width int, sep string) int {
	var b strings.Builder
	for i := 0; ctx.Err() == nil; i++ {
		n := first + float64(i)*step
		if step > 0 && n > last+1e-9 || step < 0 && n < last-1e-9 {
			if i > 0 {
				b.WriteString("\n")
			}
			break
		}
		if i > 0 {
			b.WriteString(sep)
		}
		fmt.Fprintf(&b, "%0*.*f", width, decimals, n)
		if b.Len() > 4096 {
			c.print(b.String())
			b.Reset()
		}
	}
	c.print(b.String())
	return 0
}
