package l4

import (
	"strconv"
	"strings"
)

// flag is a number that a launcher is given on its command line, and where it stands.
type flag struct {
	name     string // as written: "--nproc_per_node"
	value    int
	field    string // "command" or "args"
	at       int    // of its list, the item that has the value
	item     string // the whole item
	from, to int    // the value in it
}

// with is the item with another value.
func (f *flag) with(value int) string { return f.item[:f.from] + strconv.Itoa(value) + f.item[f.to:] }

// findFlag looks for a flag with a whole number, by any of its spellings: as one item (--n=4), as two, or inside a
// script.
func findFlag(command, args []string, names ...string) (flag, bool) {
	for _, list := range []struct {
		field string
		items []string
	}{{"command", command}, {"args", args}} {
		for i := range list.items {
			for _, name := range names {
				if f, ok := flagAt(list.items, i, name); ok {
					f.name, f.field, f.item = name, list.field, list.items[f.at]
					return f, true
				}
			}
		}
	}
	return flag{}, false
}

// flagAt reads the flag where it begins in the list's item.
func flagAt(items []string, i int, name string) (flag, bool) {
	if items[i] == name && i+1 < len(items) {
		if n, err := strconv.Atoi(items[i+1]); err == nil && n > 0 {
			return flag{value: n, at: i + 1, to: len(items[i+1])}, true
		}
	}
	n, from, to := flagIn(items[i], name)
	return flag{value: n, at: i, from: from, to: to}, n > 0
}

// flagIn finds the flag's number in an item that is more than the flag's name; 0 where it has none.
func flagIn(item, name string) (n, from, to int) {
	for start := 0; ; {
		at := strings.Index(item[start:], name)
		if at < 0 {
			return 0, 0, 0
		}
		at += start
		start = at + len(name)
		from = start + len(item[start:]) - len(strings.TrimLeft(item[start:], "= "))
		to = from + digits(item[from:])
		if at > 0 && !strings.ContainsAny(item[at-1:at], " \t\n'\"") || from == start {
			continue
		}
		if to < len(item) && !strings.ContainsAny(item[to:to+1], " \t\n'\";&|\\") {
			continue // 1:4, gpu, $N
		}
		if n, err := strconv.Atoi(item[from:to]); err == nil && n > 0 {
			return n, from, to
		}
	}
}

// digits is how many of them the text begins with.
func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
