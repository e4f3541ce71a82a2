package shell

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"

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
	list, err := c.fs().ReadDir(d.path)
	if err != nil {
		c.errorf("%s: %s", d.name, lang.Reason(err))
		return
	}
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
	var out strings.Builder
	for _, it := range items {
		name := it.name
		if c.opts.has('F') {
			name += suffix(it.info.Mode())
		}
		if c.opts.has('l') {
			name = c.longLine(it, name)
		}
		out.WriteString(name + "\n")
	}
	c.print(out.String())
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

// finder is a parsed find command.
type finder struct {
	roots    []string
	tests    []func(name string, info vfs.Info) bool
	maxDepth int
	minDepth int
	end      string // after each name
	remove   bool
}

func find(ctx context.Context, c *call) int {
	f := finder{maxDepth: 1 << 20, end: "\n"}
	args := c.args
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "!" {
		f.roots, args = append(f.roots, args[0]), args[1:]
	}
	if len(f.roots) == 0 {
		f.roots = []string{"."}
	}
	if err := f.parse(args); err != nil {
		return c.fail("%v", err)
	}
	status := 0
	for _, root := range f.roots {
		if err := c.findIn(ctx, &f, root); err != nil {
			status = c.fail("%s: %s", root, lang.Reason(err))
		}
	}
	return status
}

func (f *finder) parse(args []string) error {
	negate := false
	for len(args) > 0 {
		op := args[0]
		args = args[1:]
		value := ""
		switch op {
		case "!", "-not":
			negate = !negate
			continue
		case "-print", "-a", "-and":
			continue
		case "-print0":
			f.end = "\x00"
			continue
		case "-delete":
			f.remove = true
			continue
		}
		if len(args) > 0 {
			value = args[0]
			args = args[1:]
		}
		test, err := f.test(op, value)
		if err != nil {
			return err
		}
		if test == nil {
			continue
		}
		not := negate
		negate = false
		f.tests = append(f.tests, func(name string, info vfs.Info) bool { return test(name, info) != not })
	}
	return nil
}

// test is one condition; nil for options that are none.
func (f *finder) test(op, value string) (func(string, vfs.Info) bool, error) {
	switch op {
	case "-name", "-iname", "-path":
		match, err := matcher(value, op == "-iname")
		return func(name string, _ vfs.Info) bool {
			if op == "-path" {
				return match(name)
			}
			return match(path.Base(name))
		}, err
	case "-type":
		return func(_ string, info vfs.Info) bool { return typeLetter(info.Mode()) == value }, nil
	case "-empty":
		return nil, fmt.Errorf("unrecognized: %s", op)
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(value)
		if op == "-maxdepth" {
			f.maxDepth = n
		} else {
			f.minDepth = n
		}
		return nil, err
	}
	return nil, fmt.Errorf("unrecognized: %s", op)
}

// matcher compiles a shell pattern for whole strings.
func matcher(pat string, fold bool) (func(string) bool, error) {
	mode := pattern.EntireString
	if fold {
		mode |= pattern.NoGlobCase
	}
	expr, err := pattern.Regexp(pat, mode)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

func typeLetter(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "d"
	case mode&fs.ModeSymlink != 0:
		return "l"
	case mode.IsRegular():
		return "f"
	}
	return "c"
}

func (c *call) findIn(ctx context.Context, f *finder, root string) error {
	base := c.path(root)
	var found []string
	err := c.walk(ctx, base, f.maxDepth > 0, func(full string, info vfs.Info) error {
		rel := strings.TrimPrefix(full, base)
		depth := strings.Count(strings.Trim(rel, "/"), "/") + 1
		if strings.Trim(rel, "/") == "" {
			depth = 0
		}
		if depth > f.maxDepth || depth < f.minDepth {
			return nil
		}
		name := root + rel
		for _, test := range f.tests {
			if !test(name, info) {
				return nil
			}
		}
		if f.remove {
			found = append(found, full)
			return nil
		}
		c.print(name + f.end)
		return nil
	})
	for _, full := range slices.Backward(found) {
		if rerr := c.fs().Remove(full); rerr != nil && err == nil {
			err = rerr
		}
	}
	return err
}

func stat(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	status := 0
	for _, name := range c.args {
		info, err := c.fs().Lstat(c.path(name))
		if err != nil {
			status = c.fail("can't stat '%s': %s", name, lang.Reason(err))
			continue
		}
		if c.opts.has('c') {
			c.print(statFormat(c.opts.value('c', ""), name, info) + "\n")
			continue
		}
		c.printf("  File: %s\n  Size: %d\nAccess: (%04o/%s)  Uid: (    0/    root)   Gid: (    0/    root)\nModify: %s\n",
			name, info.Size(), info.Mode().Perm(), modeText(info.Mode()), info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return status
}

func statFormat(format, name string, info vfs.Info) string {
	kinds := map[string]string{"d": "directory", "l": "symbolic link", "f": "regular file", "c": "character special file"}
	return strings.NewReplacer(
		"%%", "%", "%n", name, "%s", strconv.FormatInt(info.Size(), 10), "%a", strconv.FormatUint(uint64(info.Mode().Perm()), 8),
		"%A", modeText(info.Mode()), "%F", kinds[typeLetter(info.Mode())], "%Y", strconv.FormatInt(info.ModTime().Unix(), 10),
		"%y", info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700"), "%U", "root", "%G", "root", "%u", "0", "%g", "0",
	).Replace(format)
}

func du(ctx context.Context, c *call) int {
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	status := 0
	for _, name := range names {
		if _, err := c.usageOf(ctx, name, c.path(name), true); err != nil {
			status = c.fail("%s: %s", name, lang.Reason(err))
		}
	}
	return status
}

// usageOf adds up the sizes below a name, printing directories on the way.
func (c *call) usageOf(ctx context.Context, name, full string, top bool) (int64, error) {
	if err := c.session.Spend(ctx, 1); err != nil {
		return 0, err
	}
	info, err := c.fs().Lstat(full)
	if err != nil {
		return 0, err
	}
	total := (info.Size() + 4095) / 4096 * 4096
	if info.IsDir() {
		list, err := c.fs().ReadDir(full)
		if err != nil {
			return 0, err
		}
		for _, e := range list {
			n, err := c.usageOf(ctx, name+"/"+e.Name(), full+"/"+e.Name(), false)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	if top || !c.opts.has('s') && (info.IsDir() || c.opts.has('a')) {
		c.printf("%s\t%s\n", c.blocks(total), name)
	}
	return total, nil
}

// blocks shows bytes in the unit that -h, -k or -m asks for.
func (c *call) blocks(n int64) string {
	switch {
	case c.opts.has('h'):
		return human(n)
	case c.opts.has('m'):
		return strconv.FormatInt(n>>20, 10)
	}
	return strconv.FormatInt(n>>10, 10)
}

func df(_ context.Context, c *call) int {
	unit := "1K-blocks"
	if c.opts.has('h') {
		unit = "Size"
	}
	c.printf("%-20s %10s %10s %10s %4s %s\n", "Filesystem", unit, "Used", "Available", "Use%", "Mounted on")
	used, limit := c.fs().Usage()
	c.dfLine("overlay", "/", used, limit)
	for _, m := range c.fs().Mounts() {
		used, limit := m.Volume.Usage()
		c.dfLine("tmpfs", m.Path, used, limit)
	}
	return 0
}

func (c *call) dfLine(kind, at string, used, limit int64) {
	if limit == 0 {
		limit = 64 << 30
	}
	c.printf("%-20s %10s %10s %10s %3d%% %s\n", kind, c.blocks(limit), c.blocks(used), c.blocks(limit-used), used*100/limit, at)
}
