package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
	var fields []string
	if sep == "" {
		fields = strings.Fields(line)
	} else {
		fields = strings.Split(line, sep)
	}
	to := len(fields)
	if k.to > 0 {
		to = min(k.to, len(fields))
	}
	if k.from > to {
		return ""
	}
	return strings.Join(fields[k.from-1:to], cmp.Or(sep, " "))
}

func sortLines(_ context.Context, c *call) int {
	compare, err := c.sortOrder()
	if err != nil {
		return c.fail("%v", err)
	}
	var lines []string
	size := 0
	status := c.inputs(c.args, func(_ string, r io.Reader) error {
		return eachLine(r, func(line string, _ bool) error {
			if size += len(line) + 16; size > rootLimit {
				return errors.New("input too large")
			}
			lines = append(lines, line)
			return nil
		})
	})
	slices.SortStableFunc(lines, compare)
	if c.opts.has('u') {
		lines = slices.CompactFunc(lines, func(a, b string) bool { return compare(a, b) == 0 })
	}
	return max(status, c.writeSorted(lines))
}

func (c *call) writeSorted(lines []string) int {
	text := strings.Join(lines, "\n")
	if len(lines) > 0 {
		text += "\n"
	}
	if !c.opts.has('o') {
		c.print(text)
		return 0
	}
	name := c.opts.value('o', "")
	if err := c.fs().WriteFile(c.path(name), []byte(text), 0o644); err != nil {
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
