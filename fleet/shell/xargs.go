package shell

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
)

// maxArgs bounds what xargs hands to one command.
const maxArgs = 128 << 10

// xargs runs a command with arguments read from standard input.
func xargs(ctx context.Context, c *call) int {
	command := c.args
	if len(command) == 0 {
		command = []string{"echo"}
	}
	data, err := readAll(c.stdin)
	if err != nil {
		return c.broken("read", err)
	}
	items, err := c.xargsItems(string(data))
	if err != nil {
		return c.fail("%v", err)
	}
	if len(items) == 0 && (c.opts.has('r') || c.opts.has('I')) {
		return 0
	}
	most, err := strconv.Atoi(c.opts.value('n', "100000"))
	if err != nil || most < 1 {
		return c.fail("invalid number '%s'", c.opts.value('n', ""))
	}
	status := 0
	for _, args := range c.xargsLines(command, items, most) {
		if c.opts.has('t') {
			c.printErr(strings.Join(args, " ") + "\n")
		}
		switch s := c.xargsRun(ctx, args); {
		case ctx.Err() != nil:
			return 1
		case s == 255 || s == 126 || s == 127:
			return max(s, 124)
		case s != 0:
			status = 123
		}
	}
	return status
}

// xargsRun runs one command; its standard input is empty, since xargs has read it.
func (c *call) xargsRun(ctx context.Context, args []string) int {
	null := fd.Null()
	defer null.Release()
	cmd := *c.cmd
	cmd.Args, cmd.Stdin, cmd.PID = args, null, 0
	cmd.Depth += 10
	return c.session.Exec(ctx, &cmd)
}

// xargsItems splits the input: at NUL bytes, at a delimiter, at lines for -I, or at blanks
// with quotes respected.
func (c *call) xargsItems(text string) ([]string, error) {
	sep := ""
	switch {
	case c.opts.has('0'):
		sep = "\x00"
	case c.opts.has('d'):
		sep = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00").Replace(c.opts.value('d', ""))
	case c.opts.has('I'):
		sep = "\n"
	}
	if sep == "" {
		return splitQuoted(text)
	}
	items := strings.Split(strings.TrimSuffix(text, sep), sep)
	if text == "" {
		return nil, nil
	}
	if c.opts.has('I') {
		items = slices.DeleteFunc(items, func(s string) bool { return strings.TrimSpace(s) == "" })
	}
	return items, nil
}

func splitQuoted(text string) ([]string, error) {
	var items []string
	var b strings.Builder
	quote, in := rune(0), false
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case quote != 0:
			if r == quote {
				quote = 0
				continue
			}
			b.WriteRune(r)
		case r == '\\':
			escaped, in = true, true
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if in {
				items = append(items, b.String())
			}
			b.Reset()
			in = false
		default:
			b.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, errors.New("unmatched quote")
	}
	if in {
		items = append(items, b.String())
	}
	return items, nil
}

// xargsLines makes the commands to run.
func (c *call) xargsLines(command, items []string, most int) [][]string {
	var lines [][]string
	if c.opts.has('I') {
		for _, item := range items {
			line := make([]string, len(command))
			for i, word := range command {
				line[i] = strings.ReplaceAll(word, c.opts.value('I', "{}"), item)
			}
			lines = append(lines, line)
		}
		return lines
	}
	line, size := slices.Clone(command), 0
	for i, item := range items {
		line, size = append(line, item), size+len(item)+1
		if n := len(line) - len(command); n < most && size < maxArgs && i+1 < len(items) {
			continue
		}
		lines = append(lines, line)
		line, size = slices.Clone(command), 0
	}
	if len(items) == 0 {
		lines = append(lines, line)
	}
	return lines
}
