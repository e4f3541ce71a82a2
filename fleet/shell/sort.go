package shell

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// sortKey is the part of a line that sort -k compares: fields from to to, counted from 1; a
// to of 0 is the end of the line.
type sortKey struct {
	from, to         int
	numeric, reverse bool
}

func parseSortKey(text string) (sortKey, error) {
	var k sortKey
	from, to, _ := strings.Cut(text, ",")
	number := func(part string) int {
		digits := strings.TrimRight(part, "nrbfh")
		k.numeric = k.numeric || strings.ContainsAny(part[len(digits):], "nh")
		k.reverse = k.reverse || strings.Contains(part[len(digits):], "r")
		digits, _, _ = strings.Cut(digits, ".")
		n, err := strconv.Atoi(digits)
		if err != nil {
			return -1
		}
		return n
	}
	if k.from = number(from); to != "" {
		k.to = number(to)
	}
	if k.from < 1 || k.to < 0 {
		return k, fmt.Errorf("bad field specification '%s'", text)
	}
	return k, nil
}

// of is the key of a line, with sep between fields or blanks where it is empty.
func (k sortKey) of(line, sep string) string {
	start, end, n := -1, len(line), 0
	for at := 0; at <= len(line); {
		from, to := nextField(line, at, sep)
		if from < 0 {
			break
		}
		if n++; n == k.from {
			start = from
		}
		if n == k.to {
			end = to
			break
		}
		at = to + max(len(sep), 1)
	}
	if start < 0 || start > end {
		return ""
	}
	return line[start:end]
}

// nextField is where the field that begins at or after a position lies; -1: there is none.
func nextField(line string, at int, sep string) (from, to int) {
	if sep != "" {
		if n := strings.Index(line[at:], sep); n >= 0 {
			return at, at + n
		}
		return at, len(line)
	}
	for at < len(line) && (line[at] == ' ' || line[at] == '\t') {
		at++
	}
	if at == len(line) {
		return -1, -1
	}
	if n := strings.IndexAny(line[at:], " \t"); n >= 0 {
		return at, at + n
	}
	return at, len(line)
}

func sortLines(_ context.Context, c *call) int {
	compare, err := c.sortOrder()
	if err != nil {
		return c.fail("%v", err)
	}
	var lines []string
	status := c.inputs(c.args, func(_ string, r io.Reader) error {
		return c.eachLine(r, func(line string, _ bool) error {
			lines = append(lines, line)
			return c.mem.Take(budget.Size(len(line)))
		})
	})
	compare = c.payFor(compare)
	slices.SortStableFunc(lines, compare)
	if c.opts.has('u') {
		lines = slices.CompactFunc(lines, func(a, b string) bool { return compare(a, b) == 0 })
	}
	if c.ctx.Err() != nil {
		return 1
	}
	return max(status, c.writeSorted(lines))
}

// payFor makes a comparison pay for its work. After the command's end everything is equal, so that sorting ends soon.
func (c *call) payFor(compare func(a, b string) int) func(a, b string) int {
	over := false
	return func(a, b string) int {
		if !over {
			over = c.work(int64(16+min(len(a)+len(b), 2*perStep))) != nil
		}
		if over {
			return 0
		}
		return compare(a, b)
	}
}

func (c *call) writeSorted(lines []string) int {
	to := io.WriteCloser(nopCloser{c.stdout})
	name := c.opts.value('o', "write")
	if c.opts.has('o') {
		f, err := c.create(name, vfs.Truncate)
		if err != nil {
			return c.broken(name, err)
		}
		to = f
	}
	defer to.Close()
	out := bufio.NewWriter(to)
	for _, line := range lines {
		if _, err := out.WriteString(line + "\n"); err != nil {
			return c.broken(name, err)
		}
	}
	if err := out.Flush(); err != nil {
		return c.broken(name, err)
	}
	return 0
}

// sortOrder is the comparison that sort's flags ask for. Equal keys are ordered by the whole
// line, unless -u asks for one line a key.
func (c *call) sortOrder() (func(a, b string) int, error) {
	var keys []sortKey
	for _, text := range c.opts['k'] {
		k, err := parseSortKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	sep := c.opts.value('t', "")
	numeric := c.opts.has('n') || c.opts.has('h')
	one := func(a, b string, numeric bool) int {
		if numeric {
			return cmp.Compare(leadingNumber(a), leadingNumber(b))
		}
		if c.opts.has('f') {
			a, b = strings.ToUpper(a), strings.ToUpper(b)
		}
		return strings.Compare(a, b)
	}
	return func(a, b string) int {
		d := 0
		for _, k := range keys {
			if d = one(k.of(a, sep), k.of(b, sep), k.numeric || numeric); k.reverse {
				d = -d
			}
			if d != 0 {
				break
			}
		}
		if len(keys) == 0 {
			d = one(a, b, numeric)
		}
		if d == 0 && !c.opts.has('u') {
			d = strings.Compare(a, b)
		}
		if c.opts.has('r') {
			d = -d
		}
		return d
	}, nil
}

// leadingNumber is the number a line starts with, with K, M, G and T as in -h; 0 if none.
func leadingNumber(line string) float64 {
	line = strings.TrimLeft(line, " \t")
	end := 0
	for end < len(line) && (line[end] >= '0' && line[end] <= '9' || line[end] == '.' || end == 0 && line[end] == '-') {
		end++
	}
	n, _ := strconv.ParseFloat(line[:end], 64)
	if end < len(line) {
		if i := strings.IndexByte("KMGT", line[end]); i >= 0 {
			n *= float64(int64(1) << (10 * (i + 1)))
		}
	}
	return n
}
