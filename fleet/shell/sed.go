package shell

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/internal/regex"
)

// sedCommand is one command of a sed script: s, p, d, q, =, y, a, i and c, with up to two
// addresses. Blocks, labels and the hold space are not supported.
type sedCommand struct {
	from, to *sedAddress
	negate   bool
	verb     byte
	re       *regex.Regexp
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
	re   *regex.Regexp
}

func sed(_ context.Context, c *call) int {
	scripts := c.opts['e']
	if len(scripts) == 0 {
		if len(c.args) == 0 {
			return c.usage()
		}
		scripts, c.args = c.args[:1], c.args[1:]
	}
	size := int64(0)
	for _, s := range scripts {
		size += 4 * budget.Size(len(s))
	}
	if c.mem.Take(size) != nil {
		return 1
	}
	p := sedParser{text: strings.Join(scripts, "\n"), extended: c.opts.has('E') || c.opts.has('r'), mem: c.mem, spend: c.spend}
	script, err := p.parse()
	if err != nil {
		return c.fail("%v", err)
	}
	if !c.opts.has('i') {
		e := sedRun{c: c, script: script, quiet: c.opts.has('n'), out: c.stdout}
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
	in, err := c.open(name)
	if err != nil {
		return err
	}
	out := c.mem.Buffer()
	defer out.Reset()
	e := sedRun{c: c, script: script, quiet: c.opts.has('n'), out: out}
	err = e.run(in)
	in.Close()
	if err != nil {
		return err
	}
	info, err := c.fs().Stat(c.path(name))
	if err != nil {
		return err
	}
	return c.fs().WriteFile(c.path(name), out.Bytes(), info.Mode())
}

// sedRun is a script at work; n counts lines over all files.
type sedRun struct {
	c      *call
	script []*sedCommand
	quiet  bool
	out    io.Writer
	n      int
	quit   bool
	steps  int // commands since the last one that was paid for
}

func (e *sedRun) run(r io.Reader) error {
	if e.quit {
		return nil
	}
	// One line is held back, since only then is it known which is the last.
	held, have := "", false
	err := e.c.eachLine(r, func(line string, last bool) error {
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
	cycle := sedCycle{run: e, line: line, last: last, mem: e.c.mem.Sub()}
	cycle.after = cycle.mem.Buffer()
	defer cycle.mem.Close()
	for _, cmd := range e.script {
		if e.steps++; e.steps%64 == 0 {
			if err := e.c.spend(1); err != nil {
				return err
			}
		}
		if err := e.c.work(cmd.work(cycle.line)); err != nil {
			return err
		}
		applies, err := cmd.applies(e.n, last, cycle.line)
		if err != nil {
			return err
		}
		if !applies {
			continue
		}
		done, err := cycle.do(cmd)
		if err != nil {
			return err
		}
		if cmd.verb == 'q' {
			e.quit = true
			break
		}
		if done {
			return e.write(cycle.after.Bytes())
		}
	}
	if !e.quiet {
		if err := e.writeLine(cycle.line, newline); err != nil {
			return err
		}
	}
	return e.write(cycle.after.Bytes())
}

func (e *sedRun) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := e.out.Write(b)
	return err
}

func (e *sedRun) writeLine(text string, newline bool) error {
	if len(text) < maxPiece && newline {
		_, err := io.WriteString(e.out, text+"\n")
		return err
	}
	if _, err := io.WriteString(e.out, text); err != nil || !newline {
		return err
	}
	_, err := io.WriteString(e.out, "\n")
	return err
}

// sedCycle is a line on its way through the script. What it grows to counts until it is written.
type sedCycle struct {
	run   *sedRun
	line  string
	last  bool
	after *budget.Buffer // to be written after the line
	mem   *budget.Scope
}

// do changes the line, or prints; done ends the cycle without the line.
func (s *sedCycle) do(cmd *sedCommand) (done bool, err error) {
	switch cmd.verb {
	case 's':
		changed, err := s.substitute(cmd)
		if changed && cmd.print && err == nil {
			err = s.run.writeLine(s.line, true)
		}
		return false, err
	case 'p':
		return false, s.run.writeLine(s.line, true)
	case '=':
		return false, s.run.writeLine(strconv.Itoa(s.run.n), true)
	case 'd':
		return true, nil
	case 'i':
		return false, s.run.writeLine(cmd.text, true)
	case 'a':
		_, err := s.after.WriteString(cmd.text + "\n")
		return false, err
	case 'c':
		return true, s.run.writeLine(cmd.text, true)
	case 'y':
		if err := s.mem.Take(4 * int64(len(s.line))); err != nil {
			return false, err
		}
		s.line = strings.Map(func(r rune) rune {
			if to, ok := cmd.pairs[r]; ok {
				return to
			}
			return r
		}, s.line)
	}
	return false, nil
}

// work is what looking at a line takes.
func (cmd *sedCommand) work(line string) int64 {
	total := int64(0)
	for _, a := range []*sedAddress{cmd.from, cmd.to} {
		if a != nil && a.re != nil {
			total += a.re.Work(line)
		}
	}
	if cmd.re != nil {
		total += cmd.re.Work(line)
	}
	return total
}

func (cmd *sedCommand) applies(n int, last bool, line string) (bool, error) {
	yes, err := cmd.matches(n, last, line)
	return yes != cmd.negate, err
}

func (cmd *sedCommand) matches(n int, last bool, line string) (bool, error) {
	switch {
	case cmd.from == nil:
		return true, nil
	case cmd.to == nil:
		return cmd.from.matches(n, last, line)
	case cmd.active:
		ends, err := cmd.to.matches(n, last, line)
		if ends || cmd.to.line > 0 && n >= cmd.to.line {
			cmd.active = false
		}
		return cmd.to.line == 0 || n <= cmd.to.line, err
	}
	begins, err := cmd.from.matches(n, last, line)
	if begins {
		cmd.active = cmd.to.line == 0 || cmd.to.line > n
	}
	return begins, err
}

func (a *sedAddress) matches(n int, last bool, line string) (bool, error) {
	switch {
	case a.last:
		return last, nil
	case a.re != nil:
		return a.re.Match(line)
	}
	return n == a.line, nil
}

// substitute replaces the matches that the flags ask for.
func (s *sedCycle) substitute(cmd *sedCommand) (changed bool, err error) {
	b := s.mem.Buffer()
	at, i := 0, 0
	err = cmd.re.Each(s.line, func(m []int) error {
		if err := s.run.c.work(cmd.re.Work(s.line[m[0]:])); err != nil {
			return err
		}
		if i++; i < cmd.nth {
			return nil
		}
		if i > cmd.nth && !cmd.global {
			return errMany
		}
		_, err := b.WriteString(s.line[at:m[0]])
		if err == nil {
			err = cmd.replacement(b, s.line, m)
		}
		at, changed = m[1], true
		return err
	})
	if err != nil && err != errMany || !changed {
		return false, ignoreMany(err)
	}
	if _, err := b.WriteString(s.line[at:]); err != nil {
		return false, err
	}
	s.line, err = b.Cut()
	b.Reset()
	return true, err
}

func ignoreMany(err error) error {
	if err == errMany {
		return nil
	}
	return err
}

// replacement writes the text for one match: & is all of it, \1 to \9 are its groups.
func (cmd *sedCommand) replacement(b *budget.Buffer, line string, m []int) error {
	for i := 0; i < len(cmd.text); i++ {
		part := cmd.text[i : i+1]
		switch {
		case part == "&":
			part = line[m[0]:m[1]]
		case part == `\` && i+1 < len(cmd.text):
			i++
			switch d := cmd.text[i]; {
			case d >= '0' && d <= '9':
				part = ""
				if g := 2 * int(d-'0'); g+1 < len(m) && m[g] >= 0 {
					part = line[m[g]:m[g+1]]
				}
			case d == 'n':
				part = "\n"
			case d == 't':
				part = "\t"
			default:
				part = cmd.text[i : i+1]
			}
		}
		if _, err := b.WriteString(part); err != nil {
			return err
		}
	}
	return nil
}
