package shell

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/fd"
)

// maxArgs bounds what xargs hands to one command.
const maxArgs = 128 << 10

// xargsRun is an xargs at work: it reads arguments and runs a command whenever it has enough of them.
type xargsRun struct {
	c       *call
	command []string
	most    int // arguments of one command
	next    func() (string, error)

	args   []string
	size   int
	ran    bool
	status int
}

// xargs runs a command with arguments read from standard input.
func xargs(ctx context.Context, c *call) int {
	x := &xargsRun{c: c, command: c.args}
	if len(x.command) == 0 {
		x.command = []string{"echo"}
	}
	var err error
	if x.most, err = strconv.Atoi(c.opts.value('n', "100000")); err != nil || x.most < 1 {
		return c.fail("invalid number '%s'", c.opts.value('n', ""))
	}
	if x.next, err = c.xargsItems(); err != nil {
		return c.fail("%v", err)
	}
	err = x.all(ctx)
	switch {
	case err == io.EOF:
		return x.status
	case errors.Is(err, errMany):
		return max(x.status, 124)
	case ctx.Err() != nil:
		return 1
	}
	return c.broken("read", err)
}

// all reads to the end, which it returns io.EOF for.
func (x *xargsRun) all(ctx context.Context) error {
	for {
		item, err := x.next()
		if err == io.EOF {
			if len(x.args) > 0 || !x.ran && !x.c.opts.has('r') && !x.c.opts.has('I') {
				err = x.run(ctx)
			}
			if err == nil {
				err = io.EOF
			}
			return err
		}
		if err != nil {
			return err
		}
		x.args, x.size = append(x.args, item), x.size+len(item)+1
		if len(x.args) < x.most && x.size < maxArgs && !x.c.opts.has('I') {
			continue
		}
		if err := x.run(ctx); err != nil {
			return err
		}
	}
}

// run runs the command with the arguments read so far and forgets them. Its standard input is empty, since xargs
// reads it. errMany says that the command wants no more.
func (x *xargsRun) run(ctx context.Context) error {
	args, err := x.line()
	if err != nil {
		return err
	}
	if x.c.opts.has('t') {
		x.c.printErr(strings.Join(args, " ") + "\n")
	}
	null := fd.Null()
	defer null.Release()
	cmd := *x.c.cmd
	cmd.Args, cmd.Stdin, cmd.PID = args, null, 0
	cmd.Depth += 10
	status := x.c.session.Exec(ctx, &cmd)
	for _, arg := range x.args {
		x.c.mem.Give(budget.Size(len(arg)))
	}
	x.args, x.size, x.ran = nil, 0, true
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case status == 255 || status == 126 || status == 127:
		x.status = status
		return errMany
	case status != 0:
		x.status = 123
	}
	return nil
}

// line is the command to run: with the arguments at its end, or in place of the string that -I names.
func (x *xargsRun) line() ([]string, error) {
	if !x.c.opts.has('I') {
		return append(slices.Clone(x.command), x.args...), nil
	}
	line := make([]string, len(x.command))
	mark := x.c.opts.value('I', "{}")
	for i, word := range x.command {
		n := strings.Count(word, mark)
		if len(word)+n*len(x.args[0]) > maxArgs {
			return nil, errors.New("command line too long")
		}
		line[i] = strings.ReplaceAll(word, mark, x.args[0])
	}
	return line, nil
}

// xargsItems gives the arguments one by one: split at NUL bytes, at a delimiter, at lines for -I, or at blanks with
// quotes respected. Each counts until its command has run.
func (c *call) xargsItems() (next func() (string, error), err error) {
	delim := ""
	switch {
	case c.opts.has('0'):
		delim = "\x00"
	case c.opts.has('d'):
		delim = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(c.opts.value('d', ""))
		if len(delim) != 1 {
			return nil, errors.New("the delimiter must be a single character")
		}
	case c.opts.has('I'):
		delim = "\n"
	}
	if delim == "" {
		q := &quotedItems{in: bufio.NewReader(c.stdin), item: c.mem.Buffer()}
		return q.next, nil
	}
	lines := c.mem.Lines(c.stdin, delim[0])
	return func() (string, error) {
		for {
			line, err := lines.Next()
			if err != nil && (err != io.EOF || len(line) == 0) {
				return "", err
			}
			item := strings.TrimSuffix(string(line), delim)
			if c.opts.has('I') && strings.TrimSpace(item) == "" {
				continue
			}
			return item, c.mem.Take(budget.Size(len(item)))
		}
	}, nil
}

// quotedItems reads arguments between blanks, with quotes and backslashes.
type quotedItems struct {
	in   *bufio.Reader
	item *budget.Buffer
}

func (q *quotedItems) next() (string, error) {
	quote, in, escaped := rune(0), false, false
	for q.item.Len() <= maxArgs {
		r, _, err := q.in.ReadRune()
		switch {
		case err == io.EOF && quote != 0:
			return "", errors.New("unmatched quote")
		case err == io.EOF && in:
			return q.item.Cut()
		case err != nil:
			return "", err
		case escaped:
			escaped = false
		case r == quote && quote != 0:
			quote = 0
			continue
		case quote != 0:
		case r == '\\':
			escaped, in = true, true
			continue
		case r == '\'' || r == '"':
			quote, in = r, true
			continue
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				return q.item.Cut()
			}
			continue
		}
		in = true
		if _, err := q.item.WriteString(string(r)); err != nil {
			return "", err
		}
	}
	return "", errors.New("argument line too long")
}
