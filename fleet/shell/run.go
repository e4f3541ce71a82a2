package shell

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/shell/internal/fd"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// maxArgs bounds what xargs hands to one command.
const maxArgs = 128 << 10

// runCommands wait, or run other commands.
func runCommands() []command {
	return []command{
		{"env", "+iu:", "[-i] [-u NAME] [NAME=VALUE]... [COMMAND [ARG]...]", env},
		{"nice", "+n:", "[-n N] COMMAND [ARG]...", wrap},
		{"nohup", "+", "COMMAND [ARG]...", wrap},
		{"printenv", "", "[NAME]...", printenv},
		{"setsid", "+cfw", "COMMAND [ARG]...", wrap},
		{"sleep", "", "DURATION...", sleep},
		{"stdbuf", "+i:o:e:", "[-i MODE] [-o MODE] [-e MODE] COMMAND [ARG]...", wrap},
		{"time", "+p", "[-p] COMMAND [ARG]...", timeCommand},
		{"timeout", "+s:k:", "[-s SIGNAL] [-k DURATION] DURATION COMMAND [ARG]...", timeout},
		{"usleep", "", "MICROSECONDS", usleep},
		{"which", "a", "[-a] COMMAND...", which},
		{"xargs", "+0n:I:rtd:P:", "[-0rt] [-n N] [-I STRING] [-d DELIM] [COMMAND [ARG]...]", xargs},
		{"yes", "", "[STRING]...", yes},
	}
}

func env(ctx context.Context, c *call) int {
	vars := slices.Clone(c.env)
	if c.opts.has('i') {
		vars = nil
	}
	for _, name := range c.opts['u'] {
		vars = slices.DeleteFunc(vars, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	args := c.args
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, _, _ := strings.Cut(args[0], "=")
		vars = slices.DeleteFunc(vars, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		vars, args = append(vars, args[0]), args[1:]
	}
	if len(args) > 0 {
		c.env = vars
		return c.become(ctx, args)
	}
	var out strings.Builder
	for _, name := range envNames(vars) {
		out.WriteString(name + "=" + envValue(vars, name) + "\n")
	}
	c.print(out.String())
	return 0
}

func printenv(_ context.Context, c *call) int {
	names, status := c.args, 0
	show := func(name string) string { return c.env1(name) + "\n" }
	if len(names) == 0 {
		names = envNames(c.env)
		show = func(name string) string { return name + "=" + c.env1(name) + "\n" }
	}
	known := envNames(c.env)
	for _, name := range names {
		if !slices.Contains(known, name) {
			status = 1
			continue
		}
		c.print(show(name))
	}
	return status
}

// wrap runs a command as it is: what the wrapper would change means nothing here.
func wrap(ctx context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	return c.become(ctx, c.args)
}

// parseDuration reads numbers with s, m, h or d after them, and infinity.
func parseDuration(text string) (time.Duration, error) {
	unit := time.Second
	number := text
	if text == "infinity" || text == "inf" {
		return math.MaxInt64, nil
	}
	if text != "" {
		units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
		if u, ok := units[text[len(text)-1]]; ok {
			unit, number = u, text[:len(text)-1]
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || math.IsNaN(n) {
		return 0, errors.New("invalid number '" + text + "'")
	}
	if d := n * float64(unit); d < math.MaxInt64 {
		return time.Duration(d), nil
	}
	return math.MaxInt64, nil
}

func sleep(ctx context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	var total time.Duration
	for _, a := range c.args {
		d, err := parseDuration(a)
		if err != nil {
			return c.fail("%v", err)
		}
		if total += d; total < 0 {
			total = math.MaxInt64
		}
	}
	return c.wait(ctx, total)
}

// wait sleeps in the container's time; the longest time there is never ends.
func (c *call) wait(ctx context.Context, d time.Duration) int {
	if d == math.MaxInt64 {
		<-ctx.Done()
		return 1
	}
	if c.container().Clock.Sleep(ctx, d) != nil {
		return 1
	}
	return 0
}

func usleep(ctx context.Context, c *call) int {
	if len(c.args) != 1 {
		return c.usage()
	}
	n, err := strconv.ParseInt(c.args[0], 10, 40)
	if err != nil || n < 0 {
		return c.fail("invalid number '%s'", c.args[0])
	}
	return c.wait(ctx, time.Duration(n)*time.Microsecond)
}

func timeCommand(ctx context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	start := time.Now()
	status := c.exec(ctx, c.args)
	d := c.container().Clock.Simulated(time.Since(start))
	c.printErr("real\t" + strconv.Itoa(int(d.Minutes())) + "m " + strconv.FormatFloat(math.Mod(d.Seconds(), 60), 'f', 2, 64) +
		"s\nuser\t0m 0.00s\nsys\t0m 0.00s\n")
	return status
}

// timeout ends a command that runs too long: status 124, or 137 where it was killed.
func timeout(ctx context.Context, c *call) int {
	if len(c.args) < 2 {
		return c.usage()
	}
	limit, err := parseDuration(c.args[0])
	if err != nil {
		return c.fail("%v", err)
	}
	sig, ok := lang.ParseSignal(c.opts.value('s', "TERM"))
	if !ok {
		return c.fail("bad signal name '%s'", c.opts.value('s', ""))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	expired := &expiry{sig}
	if limit > 0 && limit < math.MaxInt64 {
		timer := time.AfterFunc(c.container().Clock.Wall(limit), func() { cancel(expired) })
		defer timer.Stop()
	}
	status := c.exec(ctx, c.args[1:])
	if context.Cause(ctx) == error(expired) && sig != Kill {
		return 124
	}
	return status
}

// expiry is the cause of a command's end when its time is over.
type expiry struct{ sig Signal }

func (e *expiry) Error() string { return "timed out" }
func (e *expiry) Unwrap() error { return e.sig }

func which(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.usage()
	}
	status := 0
	for _, name := range c.args {
		at, ok := c.session.Find(c.dir, c.env1("PATH"), name)
		if !ok {
			status = 1
			continue
		}
		c.print(at + "\n")
	}
	return status
}

func yes(ctx context.Context, c *call) int {
	word := "y"
	if len(c.args) > 0 {
		word = strings.Join(c.args, " ")
	}
	word = strings.Repeat(word+"\n", max(1, 4096/(len(word)+1)))
	for ctx.Err() == nil {
		if _, err := c.stdout.Write([]byte(word)); err != nil {
			return c.broken("write", err)
		}
	}
	return 0
}

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
