package shell

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Machine is what a container believes to be on. The zero values stand for a small one.
type Machine struct {
	CPUs      int    // 0: 8
	MemoryKiB int64  // 0: 64 GiB
	Kernel    string // what uname -r says; empty: no kernel there ever was
}

// machine is the container's with nothing left open.
func (c *Container) machine() Machine {
	return Machine{
		CPUs: cmp.Or(c.Machine.CPUs, 8), MemoryKiB: cmp.Or(c.Machine.MemoryKiB, 64<<20), Kernel: cmp.Or(c.Machine.Kernel, "6.12.0-berth"),
	}
}

// freeKiB is the part of the memory that nobody uses.
func (m Machine) freeKiB() int64 { return m.MemoryKiB / 4 * 3 }

// systemCommands say who and where a process is. None of it comes from the host.
func systemCommands() []command {
	return []command{
		{"arch", "", "", says("x86_64")},
		{"clear", "", "", says("\x1b[H\x1b[J")},
		{"date", "=", "[-u] [-I[SPEC]] [-d DATE] [+FORMAT]", date},
		{"free", "bkmgh", "[-bkmgh]", free},
		{"groups", "", "", says("root")},
		{"hostname", "fis", "[-fis]", hostname},
		{"id", "ugnrG", "[-ugnrG]", id},
		{"nproc", "", "", nproc},
		{"ps", "=", "[-ef|aux]", ps},
		{"tty", "s", "[-s]", tty},
		{"uname", "amnoprsv", "[-amnoprsv]", uname},
		{"uptime", "", "", uptime},
		{"whoami", "", "", says("root")},
	}
}

// says makes a command that always prints the same line.
func says(line string) func(context.Context, *call) int {
	return func(_ context.Context, c *call) int {
		c.print(line + "\n")
		return 0
	}
}

func nproc(_ context.Context, c *call) int {
	c.printf("%d\n", c.container().machine().CPUs)
	return 0
}

func hostname(_ context.Context, c *call) int {
	if len(c.args) > 0 {
		return c.fail("sethostname: Operation not permitted")
	}
	name := c.container().Hostname
	if c.opts.has('i') && c.container().IP != "" {
		name = c.container().IP
	}
	c.print(name + "\n")
	return 0
}

func uname(_ context.Context, c *call) int {
	parts := []struct {
		flag byte
		text string
	}{
		{'s', "Linux"}, {'n', c.container().Hostname}, {'r', c.container().machine().Kernel}, {'v', "#1 SMP"}, {'m', "x86_64"}, {'o', "GNU/Linux"},
	}
	var out []string
	for _, p := range parts {
		if c.opts.has('a') || c.opts.has(p.flag) || len(c.opts) == 0 && p.flag == 's' || p.flag == 'm' && c.opts.has('p') {
			out = append(out, p.text)
		}
	}
	c.print(strings.Join(out, " ") + "\n")
	return 0
}

func id(_ context.Context, c *call) int {
	switch {
	case c.opts.has('n'):
		c.print("root\n")
	case c.opts.has('u') || c.opts.has('g') || c.opts.has('G'):
		c.print("0\n")
	default:
		c.print("uid=0(root) gid=0(root) groups=0(root)\n")
	}
	return 0
}

func tty(_ context.Context, c *call) int {
	if !c.cmd.Stdin.TTY() {
		c.print("not a tty\n")
		return 1
	}
	c.print("/dev/tty\n")
	return 0
}

func uptime(_ context.Context, c *call) int {
	first := time.Now()
	for _, p := range c.container().state.list(c.container()) {
		if !p.started.IsZero() && p.started.Before(first) {
			first = p.started
		}
	}
	up := c.container().Clock.Simulated(time.Since(first))
	c.printf(" %s up %d min,  load average: 0.00, 0.00, 0.00\n", time.Now().UTC().Format("15:04:05"), int(up.Minutes()))
	return 0
}

// ps lists the container's processes, whatever flags it is given.
func ps(_ context.Context, c *call) int {
	c.print("PID   USER     TIME  COMMAND\n")
	for _, p := range c.container().state.list(c.container()) {
		c.printf("%5d root      0:00 %s\n", p.pid, strings.ReplaceAll(joined(p.args, " "), "\n", " "))
	}
	return 0
}

// maxShown is how much of a command line is shown.
const maxShown = 4096

// joined is a command line, or its beginning.
func joined(args []string, sep string) string {
	var b strings.Builder
	for i, arg := range args {
		if b.Len() >= maxShown {
			break
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(arg[:min(len(arg), maxShown)])
	}
	return b.String()
}

func free(_ context.Context, c *call) int {
	unit := func(kib int64) string {
		switch {
		case c.opts.has('h'):
			return human(kib << 10)
		case c.opts.has('g'):
			return strconv.FormatInt(kib>>20, 10)
		case c.opts.has('m'):
			return strconv.FormatInt(kib>>10, 10)
		case c.opts.has('b'):
			return strconv.FormatInt(kib<<10, 10)
		}
		return strconv.FormatInt(kib, 10)
	}
	m := c.container().machine()
	c.printf("%-8s%12s%12s%12s\nMem:    %12s%12s%12s\nSwap:   %12s%12s%12s\n", "", "total", "used", "free",
		unit(m.MemoryKiB), unit(m.MemoryKiB-m.freeKiB()), unit(m.freeKiB()), unit(0), unit(0), unit(0))
	return 0
}

// date shows the wall clock. Containers are in UTC.
func date(_ context.Context, c *call) int {
	now := time.Now().UTC()
	format := "+%a %b %e %H:%M:%S UTC %Y"
	args := c.args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "-u" || arg == "--utc":
		case arg == "-R":
			format = "+%a, %d %b %Y %H:%M:%S +0000"
		case strings.HasPrefix(arg, "-I") || strings.HasPrefix(arg, "--iso-8601"):
			format = isoFormat(strings.TrimPrefix(strings.TrimPrefix(arg, "-I"), "--iso-8601="))
		case arg == "-d" && len(args) > 0:
			var err error
			if now, err = parseDate(args[0]); err != nil {
				return c.fail("%v", err)
			}
			args = args[1:]
		case strings.HasPrefix(arg, "+"):
			format = arg
		default:
			c.errorf("unrecognized option: %s", strings.TrimLeft(arg, "-"))
			return c.usage()
		}
	}
	if len(format) > maxShown {
		return c.fail("format too long")
	}
	c.print(strftime(format[1:], now) + "\n")
	return 0
}

func isoFormat(spec string) string {
	switch spec {
	case "hours":
		return "+%Y-%m-%dT%H+00:00"
	case "minutes":
		return "+%Y-%m-%dT%H:%M+00:00"
	case "seconds":
		return "+%Y-%m-%dT%H:%M:%S+00:00"
	case "ns":
		return "+%Y-%m-%dT%H:%M:%S,%N+00:00"
	}
	return "+%Y-%m-%d"
}

// parseDate understands @seconds, RFC 3339 and the like, and now.
func parseDate(text string) (time.Time, error) {
	if sec, ok := strings.CutPrefix(text, "@"); ok {
		n, err := strconv.ParseInt(sec, 10, 48)
		if err != nil {
			return time.Time{}, fmt.Errorf("invalid date '%s'", text)
		}
		return time.Unix(n, 0).UTC(), nil
	}
	if text == "now" || text == "" {
		return time.Now().UTC(), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02", "15:04"} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil { // Parse asks the host's time zone
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("invalid date '%s'", text)
}

// strftimeLayouts are the conversions that package time knows.
var strftimeLayouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002",
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04",
	'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'Z': "MST", 'z': "-0700", 'N': "000000000",
}

func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		switch ch := format[i]; ch {
		case '%':
			b.WriteByte('%')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
		case 'w':
			b.WriteString(strconv.Itoa(int(t.Weekday())))
		case 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
		default:
			layout, ok := strftimeLayouts[ch]
			if !ok {
				b.WriteString(format[i-1 : i+1])
				continue
			}
			b.WriteString(t.Format(layout))
		}
	}
	return b.String()
}
