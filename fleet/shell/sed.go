package shell

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// sedCommand is one command of a sed script: s, p, d, q, =, y, a, i and c, with up to two
// addresses. Blocks, labels and the hold space are not supported.
type sedCommand struct {
	from, to *sedAddress
	negate   bool
	verb     byte
	re       *regexp.Regexp
	text     string // replacement, or the text of a, i and c
	global   bool
	print    bool
	nth      int
	pairs    map[rune]rune // of y
	active   bool          // within from,to
}

// sedAddress is a line number, the last line ($) or a pattern.
type sedAddress struct {
	line int
	last bool
	re   *regexp.Regexp
}

func sed(_ context.Context, c *call) int {
	scripts := c.opts['e']
	if len(scripts) == 0 {
		if len(c.args) == 0 {
			return c.usage()
		}
		scripts, c.args = c.args[:1], c.args[1:]
	}
	p := sedParser{text: strings.Join(scripts, "\n"), extended: c.opts.has('E') || c.opts.has('r')}
	script, err := p.parse()
	if err != nil {
		return c.fail("%v", err)
	}
	if !c.opts.has('i') {
		e := sedRun{script: script, quiet: c.opts.has('n'), out: c.stdout}
		return c.inputs(c.args, func(_ string, r io.Reader) error { return e.run(r) })
	}
	status := 0
	for _, name := range c.args {
		if err := c.sedInPlace(script, name); err != nil {
			status = c.fail("%s: %s", name, lang.Reason(err))
		}
	}
	return status
}

func (c *call) sedInPlace(script []*sedCommand, name string) error {
	data, err := c.fs().ReadFile(c.path(name))
	if err != nil {
		return err
	}
	var out strings.Builder
	e := sedRun{script: script, quiet: c.opts.has('n'), out: &out}
	if err := e.run(strings.NewReader(string(data))); err != nil {
		return err
	}
	info, err := c.fs().Stat(c.path(name))
	if err != nil {
		return err
	}
	return c.fs().WriteFile(c.path(name), []byte(out.String()), info.Mode())
}

// sedRun is a script at work; n counts lines over all files.
type sedRun struct {
	script []*sedCommand
	quiet  bool
	out    io.Writer
	n      int
	quit   bool
}

func (e *sedRun) run(r io.Reader) error {
	if e.quit {
		return nil
	}
	// One line is held back, since only then is it known which is the last.
	held, have := "", false
	err := eachLine(r, func(line string, last bool) error {
		if have {
			if err := e.line(held, false, true); err != nil {
				return err
			}
		}
		held, have = line, true
		if last {
			have = false
			return e.line(line, true, false)
		}
		return nil
	})
	if err == nil && have && !e.quit {
		err = e.line(held, true, true)
	}
	if errors.Is(err, errMany) {
		return nil
	}
	return err
}

func (e *sedRun) line(line string, last, newline bool) error {
	if e.quit {
		return errMany
	}
	e.n++
	end := ""
	if newline {
		end = "\n"
	}
	after := ""
	write := func(text string) error {
		_, err := io.WriteString(e.out, text)
		return err
	}
	for _, cmd := range e.script {
		if !cmd.applies(e.n, last, line) {
			continue
		}
		before, done := cmd.do(&line, &after, e.n)
		if before != "" {
			if err := write(before); err != nil {
				return err
			}
		}
		if cmd.verb == 'q' {
			e.quit = true
			break
		}
		if done {
			return write(after)
		}
	}
	if e.quiet {
		return write(after)
	}
	return write(line + end + after)
}

// do changes the line. before is printed at once; done ends the cycle without the line.
func (cmd *sedCommand) do(line, after *string, n int) (before string, done bool) {
	switch cmd.verb {
	case 's':
		next, changed := cmd.substitute(*line)
		*line = next
		if changed && cmd.print {
			return next + "\n", false
		}
	case 'p':
		return *line + "\n", false
	case '=':
		return strconv.Itoa(n) + "\n", false
	case 'd':
		return "", true
	case 'i':
		return cmd.text + "\n", false
	case 'a':
		*after += cmd.text + "\n"
	case 'c':
		return cmd.text + "\n", true
	case 'y':
		*line = strings.Map(func(r rune) rune {
			if to, ok := cmd.pairs[r]; ok {
				return to
			}
			return r
		}, *line)
	}
	return "", false
}

func (cmd *sedCommand) applies(n int, last bool, line string) bool {
	return cmd.matches(n, last, line) != cmd.negate
}

func (cmd *sedCommand) matches(n int, last bool, line string) bool {
	switch {
	case cmd.from == nil:
		return true
	case cmd.to == nil:
		return cmd.from.matches(n, last, line)
	case cmd.active:
		if cmd.to.matches(n, last, line) || cmd.to.line > 0 && n >= cmd.to.line {
			cmd.active = false
		}
		return cmd.to.line == 0 || n <= cmd.to.line
	case cmd.from.matches(n, last, line):
		cmd.active = cmd.to.line == 0 || cmd.to.line > n
		return true
	}
	return false
}

func (a *sedAddress) matches(n int, last bool, line string) bool {
	switch {
	case a.last:
		return last
	case a.re != nil:
		return a.re.MatchString(line)
	}
	return n == a.line
}

// substitute replaces the matches that the flags ask for.
func (cmd *sedCommand) substitute(line string) (string, bool) {
	matches := cmd.re.FindAllStringSubmatchIndex(line, -1)
	var b strings.Builder
	at, changed := 0, false
	for i, m := range matches {
		if i+1 < cmd.nth || (i+1 > cmd.nth && !cmd.global) {
			continue
		}
		b.WriteString(line[at:m[0]])
		cmd.replacement(&b, line, m)
		at, changed = m[1], true
	}
	b.WriteString(line[at:])
	return b.String(), changed
}

// replacement writes the text for one match: & is all of it, \1 to \9 are its groups.
func (cmd *sedCommand) replacement(b *strings.Builder, line string, m []int) {
	for i := 0; i < len(cmd.text); i++ {
		ch := cmd.text[i]
		switch {
		case ch == '&':
			b.WriteString(line[m[0]:m[1]])
		case ch == '\\' && i+1 < len(cmd.text):
			i++
			switch d := cmd.text[i]; {
			case d >= '0' && d <= '9':
				if g := 2 * int(d-'0'); g+1 < len(m) && m[g] >= 0 {
					b.WriteString(line[m[g]:m[g+1]])
				}
			case d == 'n':
				b.WriteByte('\n')
			case d == 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(d)
			}
		default:
			b.WriteByte(ch)
		}
	}
}
