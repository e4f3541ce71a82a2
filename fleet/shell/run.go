package shell

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

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
	gone := map[string]bool{}
	for _, name := range c.opts['u'] {
		gone[name] = true
	}
	args := c.args
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, _, _ := strings.Cut(args[0], "=")
		gone[name] = true
		args = args[1:]
	}
	vars = slices.DeleteFunc(vars, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return gone[name]
	})
	vars = append(vars, c.args[:len(c.args)-len(args)]...)
	if len(args) > 0 {
		c.env = vars
		return c.become(ctx, args)
	}
	c.printEnv(vars)
	return 0
}

// printEnv prints an environment, sorted by name; of several settings the last counts.
func (c *call) printEnv(vars []string) {
	if c.mem.Take(int64(len(vars))*budget.Size(0)) != nil {
		return
	}
	last := lastSettings(vars)
	out := bufio.NewWriter(c.stdout)
	defer out.Flush()
	for _, name := range slices.Sorted(maps.Keys(last)) {
		if _, err := out.WriteString(name + "=" + last[name] + "\n"); err != nil {
			return
		}
	}
}

// lastSettings is an environment by name.
func lastSettings(vars []string) map[string]string {
	last := make(map[string]string, len(vars))
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		last[name] = value
	}
	return last
}

func printenv(_ context.Context, c *call) int {
	if len(c.args) == 0 {
		c.printEnv(c.env)
		return 0
	}
	status := 0
	known := lastSettings(c.env)
	for _, name := range c.args {
		value, ok := known[name]
		if !ok {
			status = 1
			continue
		}
		c.print(value + "\n")
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
	if c.mem.Take(4*int64(len(word))) != nil {
		return 1
	}
	word = strings.Repeat(word+"\n", max(1, 4096/(len(word)+1)))
	for ctx.Err() == nil {
		if _, err := c.stdout.Write([]byte(word)); err != nil {
			return c.broken("write", err)
		}
	}
	return 0
}
