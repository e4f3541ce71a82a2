package shell

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// listCommands show what files there are.
func listCommands() []command {
	return []command{
		{"df", "hkmPT", "[-hkmPT] [FILE]...", df},
		{"du", "shkma", "[-shkma] [FILE]...", du},
		{"find", "=", "[PATH]... [-name PATTERN] [-type f|d|l] [-maxdepth N] [-print0]", find},
		{"ls", "1AadFhlRrtSi", "[-1AadFhlRrtS] [FILE]...", ls},
		{"stat", "c:", "[-c FORMAT] FILE...", stat},
	}
}

// item is a line of ls.
type item struct {
	name string // as shown
	path string
	info vfs.Info
}

func ls(_ context.Context, c *call) int {
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	if c.mem.Take(int64(len(names))*entryCost) != nil {
		return 1
	}
	status := 0
	var files, dirs []item
	for _, name := range names {
		info, err := c.look(name)
		switch {
		case err != nil:
			status = c.fail("%s: %s", name, lang.Reason(err))
		case info.IsDir() && !c.opts.has('d'):
			dirs = append(dirs, item{name, c.path(name), info})
		default:
			files = append(files, item{name, c.path(name), info})
		}
	}
	c.showItems(files)
	for i, d := range dirs {
		if len(names) > 1 || c.opts.has('R') {
			if i > 0 || len(files) > 0 {
				c.print("\n")
			}
			c.print(d.name + ":\n")
		}
		c.listDir(d)
	}
	return status
}

// look describes what ls was asked for: with -l a link itself, otherwise what it leads to.
func (c *call) look(name string) (vfs.Info, error) {
	if !c.opts.has('l') {
		if info, err := c.fs().Stat(c.path(name)); err == nil {
			return info, nil
		}
	}
	return c.fs().Lstat(c.path(name))
}

func (c *call) listDir(d item) {
	list, done, err := c.readDir(d.path)
	if err != nil {
		c.errorf("%s: %s", d.name, lang.Reason(err))
		return
	}
	defer done()
	var items []item
	if c.opts.has('a') {
		items = append(items, item{".", d.path, d.info}, item{"..", d.path + "/..", d.info})
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") && !c.opts.has('a') && !c.opts.has('A') {
			continue
		}
		items = append(items, item{e.Name(), path.Join(d.path, e.Name()), e.(vfs.Info)})
	}
	if c.opts.has('l') {
		c.printf("total %d\n", len(items)*4)
	}
	c.showItems(items)
	for _, it := range items {
		if c.opts.has('R') && it.info.IsDir() && it.name != "." && it.name != ".." {
			c.print("\n" + d.name + "/" + it.name + ":\n")
			c.listDir(item{d.name + "/" + it.name, it.path, it.info})
		}
	}
}

// showItems prints lines in the order asked for. There are no columns: output is one name a
// line, as on anything but a terminal.
func (c *call) showItems(items []item) {
	switch {
	case c.opts.has('t'):
		slices.SortStableFunc(items, func(a, b item) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	case c.opts.has('S'):
		slices.SortStableFunc(items, func(a, b item) int { return int(b.info.Size() - a.info.Size()) })
	}
	if c.opts.has('r') {
		slices.Reverse(items)
	}
	out := bufio.NewWriter(c.stdout)
	defer out.Flush()
	for _, it := range items {
		name := it.name
		if c.opts.has('F') {
			name += suffix(it.info.Mode())
		}
		if c.opts.has('l') {
			name = c.longLine(it, name)
		}
		if _, err := out.WriteString(name + "\n"); err != nil {
			return
		}
	}
}

func suffix(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "/"
	case mode&fs.ModeSymlink != 0:
		return "@"
	case mode&0o111 != 0:
		return "*"
	}
	return ""
}

func (c *call) longLine(it item, name string) string {
	size := strconv.FormatInt(it.info.Size(), 10)
	if c.opts.has('h') {
		size = human(it.info.Size())
	}
	if target, err := c.fs().Readlink(it.path); err == nil {
		name += " -> " + target
	}
	return fmt.Sprintf("%s %4d %-8s %-8s %9s %s %s", modeText(it.info.Mode()), 1, "root", "root", size, fileTime(it.info.ModTime()), name)
}

// modeText is a mode as ls shows it.
func modeText(mode fs.FileMode) string {
	kind := "-"
	switch {
	case mode.IsDir():
		kind = "d"
	case mode&fs.ModeSymlink != 0:
		kind = "l"
	case mode&fs.ModeCharDevice != 0:
		kind = "c"
	}
	return kind + mode.Perm().String()[1:]
}

func fileTime(t time.Time) string {
	if age := time.Since(t); age > 180*24*time.Hour || age < -time.Hour {
		return t.UTC().Format("Jan _2  2006")
	}
	return t.UTC().Format("Jan _2 15:04")
}

// human shows bytes in the largest unit that leaves a number of at least 1.
func human(n int64) string {
	const units = "KMGTP"
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	v := float64(n)
	i := -1
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return fmt.Sprintf("%.1f%c", v, units[i])
}
