package shell

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// shellCommands are the shells, and the commands that are built into one but can also be run
// without.
func shellCommands() []command {
	var list []command
	for _, name := range []string{"sh", "ash", "bash", "dash"} {
		list = append(list, command{name, "=", "[-ceux] [-o OPTION] [SCRIPT [ARG]...]", runShell})
	}
	for _, name := range []string{"[", "echo", "false", "kill", "printf", "pwd", "test", "true"} {
		list = append(list, command{name, "=", "[ARG]...", runLangBuiltin})
	}
	return list
}

// shellArgs are the arguments of a shell.
type shellArgs struct {
	name    string // $0
	script  string // of -c
	file    string // a script to read
	command bool   // -c was given
	stdin   bool   // -s was given
	asks    bool   // -i was given
	options []shellOption
	params  []string
}

type shellOption struct {
	name string
	on   bool
}

// parseShell reads a shell's own flags.
func parseShell(name string, args []string) (a shellArgs, bad string) {
	a.name = name
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") { // --login, --norc and the like change nothing here
			continue
		}
		for _, flag := range arg[1:] {
			if flag != 'o' {
				a.flag(flag, arg[0] == '-')
				continue
			}
			if len(args) == 0 {
				return a, "-o: option requires an argument"
			}
			a.options = append(a.options, shellOption{args[0], arg[0] == '-'})
			args = args[1:]
		}
	}
	return a, a.operands(args)
}

func (a *shellArgs) flag(flag rune, on bool) {
	switch flag {
	case 'c':
		a.command = true
	case 's':
		a.stdin = true
	case 'i':
		a.asks = true
	case 'l': // there are no login scripts
	default:
		a.options = append(a.options, shellOption{string(flag), on})
	}
}

// operands takes what follows the flags: a script and its parameters.
func (a *shellArgs) operands(args []string) (bad string) {
	switch {
	case a.command && len(args) == 0:
		return "-c requires an argument"
	case a.command:
		a.script, args = args[0], args[1:]
		if len(args) > 0 {
			a.name, args = args[0], args[1:]
		}
	case len(args) > 0 && !a.stdin:
		a.file, a.name, args = args[0], args[0], args[1:]
	}
	a.params = args
	return ""
}

func runShell(ctx context.Context, c *call) int {
	a, bad := parseShell(c.name, c.args)
	if bad != "" {
		c.errorf("%s", bad)
		return 2
	}
	return c.shell(ctx, a)
}

// shell runs a shell as the process of this call.
func (c *call) shell(ctx context.Context, a shellArgs) int {
	src := a.script
	if a.file != "" {
		if c.mem.Take(lang.ScriptCost(c.fs(), c.path(a.file))) != nil {
			return 1
		}
		data, err := c.fs().ReadHead(c.path(a.file), lang.MaxScript+1)
		if err != nil {
			c.errorf("can't open '%s': %s", a.file, lang.Reason(err))
			return 127
		}
		src = string(data)
	}
	fromStdin := !a.command && a.file == ""
	sh := lang.New(ctx, lang.Options{
		Host: c.session, FS: c.fs(), Clock: c.container().Clock,
		Name: a.name, PID: c.proc.pid, Params: a.params, Env: c.env, Dir: c.dir,
		Stdin: c.cmd.Stdin, Stdout: c.cmd.Stdout, Stderr: c.cmd.Stderr,
		Interactive: fromStdin && (a.asks || c.cmd.Stdin.TTY()), Depth: c.cmd.Depth,
	})
	before := c.proc.replace(c.cmd.Args, sh.Signal)
	defer c.proc.replace(before.args, before.signal)
	for _, o := range a.options {
		if !sh.SetOption(o.name, o.on) {
			sh.Close()
			c.errorf("illegal option -%s", o.name)
			return 2
		}
	}
	if fromStdin {
		sh.Stdin()
	} else {
		sh.Run(src)
	}
	return sh.Close()
}

// runLangBuiltin runs a command that shells have built in.
func runLangBuiltin(ctx context.Context, c *call) int {
	sh := lang.New(ctx, lang.Options{
		Host: c.session, FS: c.fs(), Clock: c.container().Clock, Name: "sh", PID: c.proc.pid, Env: c.env, Dir: c.dir,
		Stdin: c.cmd.Stdin, Stdout: c.cmd.Stdout, Stderr: c.cmd.Stderr, Depth: c.cmd.Depth,
	})
	sh.Builtin(append([]string{c.name}, c.args...))
	return sh.Close()
}
