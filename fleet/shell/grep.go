package shell

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/internal/regex"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

const (
	grepFlags = "qvicnEFoRrlhHwxse:m:A:B:"
	grepUsage = "[-qvicnEFolhHwxs] [-r] [-m N] [-A N] [-B N] PATTERN|-e PATTERN [FILE]..."
)

// grepper is a grep that runs.
type grepper struct {
	c             *call
	re            *regex.Regexp
	names         bool // show the file's name
	most          int  // stop after so many lines of a file; 0: never
	before, after int
	found         bool
}

func grep(ctx context.Context, c *call) int {
	patterns := c.opts['e']
	if len(patterns) == 0 {
		if len(c.args) == 0 {
			c.usage()
			return 2
		}
		if len(c.args[0]) > regex.MaxExpr {
			c.errorf("regular expression too big")
			return 2
		}
		patterns, c.args = strings.Split(c.args[0], "\n"), c.args[1:]
	}
	re, err := c.grepRegexp(patterns)
	if err != nil {
		c.errorf("bad regex: %v", err)
		return 2
	}
	g := &grepper{c: c, re: re}
	for flag, to := range map[byte]*int{'m': &g.most, 'A': &g.after, 'B': &g.before} {
		if *to, err = strconv.Atoi(c.opts.value(flag, "0")); err != nil {
			c.errorf("invalid number '%s'", c.opts.value(flag, ""))
			return 2
		}
	}
	files, status := c.args, 0
	if c.opts.has('r') || c.opts.has('R') {
		files, status = c.grepFiles(ctx)
	}
	g.names = (len(files) > 1 || c.opts.has('H') || c.opts.has('r') || c.opts.has('R')) && !c.opts.has('h')
	if len(files) > 0 || len(c.args) == 0 && !c.opts.has('r') {
		status = max(status, g.files(files))
	}
	switch {
	case g.found && (status == 0 || c.opts.has('q')):
		return 0
	case status != 0:
		return 2
	}
	return 1
}

// grepRegexp joins patterns and applies -i, -w, -x and -F.
func (c *call) grepRegexp(patterns []string) (*regex.Regexp, error) {
	var alts []string
	size := 0
	for _, p := range patterns {
		if size += len(p) + 1; size > regex.MaxExpr {
			return nil, errors.New("regular expression too big")
		}
		switch {
		case c.opts.has('F') || c.name == "fgrep":
			p = regexp.QuoteMeta(p)
		case !c.opts.has('E') && c.name != "egrep":
			p = basicRegexp(p)
		}
		alts = append(alts, "(?:"+p+")")
	}
	expr := strings.Join(alts, "|")
	switch {
	case c.opts.has('x'):
		expr = "^(?:" + expr + ")$"
	case c.opts.has('w'):
		expr = `\b(?:` + expr + `)\b`
	}
	if c.opts.has('i') {
		expr = "(?i)" + expr
	}
	return regex.Compile(expr, c.mem)
}

// basicRegexp turns a POSIX basic regular expression into an extended one: there the plain
// characters of one are the operators of the other.
func basicRegexp(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '\\' && i+1 < len(p):
			i++
			if strings.IndexByte("(){}|+?", p[i]) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(p[i])
		case p[i] == '[':
			end := bracketEnd(p[i:])
			b.WriteString(p[i : i+end])
			i += end - 1
		case strings.IndexByte("(){}|+?", p[i]) >= 0, p[i] == '*' && (i == 0 || p[i-1] == '^' && i == 1):
			b.WriteString(`\` + p[i:i+1])
		default:
			b.WriteByte(p[i])
		}
	}
	return b.String()
}

// bracketEnd is the length of the bracket expression that text starts with.
func bracketEnd(text string) int {
	i := 1
	if i < len(text) && text[i] == '^' {
		i++
	}
	if i < len(text) && text[i] == ']' {
		i++
	}
	for i < len(text) && text[i] != ']' {
		if strings.HasPrefix(text[i:], "[:") {
			if end := strings.Index(text[i:], ":]"); end > 0 {
				i += end + 1
			}
		}
		i++
	}
	return min(i+1, len(text))
}

// grepFiles lists the regular files below the arguments, or below the directory.
func (c *call) grepFiles(ctx context.Context) (files []string, status int) {
	roots := c.args
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for _, root := range roots {
		base := c.path(root)
		err := c.walk(ctx, base, true, func(full string, info vfs.Info) error {
			if !info.Mode().IsRegular() {
				return nil
			}
			files = append(files, root+strings.TrimPrefix(full, base))
			return c.mem.Take(budget.Size(len(full)))
		})
		if err != nil {
			status = c.fail("%s: %s", root, lang.Reason(err))
		}
	}
	return files, status
}

func (g *grepper) files(files []string) int {
	status := g.c.inputs(files, func(name string, r io.Reader) error {
		err := g.file(name, r)
		if errors.Is(err, errMany) && !g.c.opts.has('q') {
			return nil
		}
		return err
	})
	if g.c.opts.has('q') && g.found {
		return 0
	}
	return status
}

// file searches one file.
func (g *grepper) file(name string, r io.Reader) error {
	n, hits, trailing := 0, 0, 0
	recent := recentLines{mem: g.c.mem, most: g.before}
	o := g.c.opts
	err := g.c.eachLine(r, func(line string, _ bool) error {
		n++
		if err := g.c.work(g.re.Work(line)); err != nil {
			return err
		}
		hit, err := g.re.Match(line)
		if err != nil {
			return err
		}
		if hit == o.has('v') {
			if trailing > 0 {
				trailing--
				return g.print(name, n, line, "-")
			}
			return recent.add(line)
		}
		hits++
		g.found = true
		if o.has('q') || o.has('l') {
			return errMany
		}
		if err := g.hit(name, n, line, recent.lines); err != nil {
			return err
		}
		recent.clear()
		trailing = g.after
		if hits == g.most {
			return errMany
		}
		return nil
	})
	switch {
	case o.has('q'):
	case o.has('l'):
		if hits > 0 {
			g.c.print(name + "\n")
		}
	case o.has('c'):
		g.c.print(g.prefix(name, 0, ":") + strconv.Itoa(hits) + "\n")
	}
	return err
}

// hit prints a matching line with what came before it.
func (g *grepper) hit(name string, n int, line string, recent []string) error {
	if g.c.opts.has('c') {
		return nil
	}
	for i, old := range recent {
		if err := g.print(name, n-len(recent)+i, old, "-"); err != nil {
			return err
		}
	}
	if !g.c.opts.has('o') {
		return g.print(name, n, line, ":")
	}
	return g.re.Each(line, func(m []int) error {
		if err := g.c.work(g.re.Work(line[m[0]:])); err != nil || m[0] == m[1] {
			return err
		}
		return g.print(name, n, line[m[0]:m[1]], ":")
	})
}

// recentLines are the last lines of a file, counted.
type recentLines struct {
	mem   *budget.Scope
	most  int
	lines []string
}

func (r *recentLines) add(line string) error {
	if r.most <= 0 {
		return nil
	}
	if len(r.lines) >= r.most {
		r.mem.Give(budget.Size(len(r.lines[0])))
		r.lines = r.lines[1:]
	}
	if err := r.mem.Take(budget.Size(len(line))); err != nil {
		return err
	}
	r.lines = append(r.lines, line)
	return nil
}

func (r *recentLines) clear() {
	for _, line := range r.lines {
		r.mem.Give(budget.Size(len(line)))
	}
	r.lines = nil
}

func (g *grepper) print(name string, n int, line, sep string) error {
	return g.c.line(g.prefix(name, n, sep)+line, false)
}

func (g *grepper) prefix(name string, n int, sep string) string {
	out := ""
	if g.names {
		if name == "-" {
			name = "(standard input)"
		}
		out = name + sep
	}
	if g.c.opts.has('n') && n > 0 {
		out += strconv.Itoa(n) + sep
	}
	return out
}
