package lang

import (
	"slices"
	"strconv"
	"strings"
)

// builtins are the commands that work on the shell itself, sorted. Declarations are here
// too, for when they are not written as such.
var builtins = []string{
	".", ":", "[", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "dirs", "disown",
	"echo", "eval", "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "let", "local",
	"mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift",
	"shopt", "source", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset",
	"wait",
}

// IsBuiltin says whether name is built into the shell.
func IsBuiltin(name string) bool {
	_, ok := slices.BinarySearch(builtins, name)
	return ok
}

// Builtins lists the built-in commands, sorted.
func Builtins() []string { return slices.Clone(builtins) }

// builtin runs a built-in command; false if args[0] is none.
func (s *Shell) builtin(args []string) bool {
	if !IsBuiltin(args[0]) {
		return false
	}
	switch args[0] {
	case "exit", "return", "eval", ".", "source": // these look at the status before them
	default:
		s.status = 0
	}
	s.runBuiltin(args)
	return true
}

func (s *Shell) runBuiltin(args []string) {
	switch args[0] {
	case ":", "true", "hash", "alias", "unalias", "bg", "disown":
	case "false":
		s.status = 1
	case ".", "source":
		s.sourceFile(args)
	case "[", "test":
		s.test(args)
	case "break", "continue":
		s.leaveLoops(args)
	case "builtin":
		s.builtinBuiltin(args[1:])
	case "cd":
		s.cd(args[1:])
	case "command":
		s.commandBuiltin(args[1:])
	case "declare", "export", "local", "readonly", "typeset":
		s.declareBuiltin(args)
	case "dirs":
		s.printDirs()
	case "echo":
		s.echo(args[1:])
	case "eval":
		if s.holdAll(args[1:], 1) {
			s.eval(strings.Join(args[1:], " "))
		}
	case "exec":
		s.exec(args[1:])
	case "exit", "return":
		s.leaveWith(args)
	case "fg", "wait":
		s.wait(args)
	case "getopts":
		s.getopts(args[1:])
	case "jobs":
		s.printJobs()
	case "kill":
		s.kill(args[1:])
	case "let":
		s.letBuiltin(args[1:])
	case "mapfile", "readarray":
		s.mapfile(args)
	case "popd", "pushd":
		s.stackDirs(args)
	case "printf":
		s.printf(args[1:])
	case "pwd":
		s.pwd(args[1:])
	case "read":
		s.read(args[1:])
	case "set":
		s.setBuiltin(args[1:])
	case "shift":
		s.shift(args[1:])
	case "shopt":
		s.shopt(args[1:])
	case "times":
		s.write(1, "0m0.000s 0m0.000s\n0m0.000s 0m0.000s\n")
	case "trap":
		s.trap(args[1:])
	case "type":
		s.typeBuiltin(args[1:])
	case "ulimit":
		s.write(1, "unlimited\n")
	case "umask":
		s.umaskBuiltin(args[1:])
	case "unset":
		s.unset(args[1:])
	}
}

// number parses the one optional number that break, exit and shift take.
func (s *Shell) number(args []string, otherwise int) (int, bool) {
	if len(args) < 2 {
		return otherwise, true
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		s.errorf("%s: Illegal number: %s", args[0], args[1])
		s.status = 2
		return 0, false
	}
	return n, true
}

func (s *Shell) leaveLoops(args []string) {
	n, ok := s.number(args, 1)
	if !ok || s.loops == 0 {
		return
	}
	s.flow, s.flowN = flowBreak, min(max(n, 1), s.loops)
	if args[0] == "continue" {
		s.flow = flowContinue
	}
}

// leaveWith is exit and return; without a number the status stays what it was.
func (s *Shell) leaveWith(args []string) {
	n, ok := s.number(args, s.status)
	if ok {
		s.status = n & 0xff
	}
	s.flow = flowExit
	if args[0] == "return" && s.funcDepth+s.sourceDepth > 0 {
		s.flow = flowReturn
	}
}

func (s *Shell) shift(args []string) {
	n, ok := s.number(append([]string{"shift"}, args...), 1)
	switch {
	case !ok:
	case n < 0 || n > len(s.params):
		s.fail("shift: can't shift that many")
	default:
		s.params = s.params[n:]
	}
}

func (s *Shell) builtinBuiltin(args []string) {
	if len(args) == 0 {
		return
	}
	if !s.builtin(args) {
		s.fail("builtin: %s: not a shell builtin", args[0])
	}
}

// exec replaces the shell by a command, or makes redirections stay.
func (s *Shell) exec(args []string) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		s.keepFDs = true
		return
	}
	s.exit, s.sig = "", s.sig.inherit()
	s.replaces = true
	s.external(args)
	s.flow = flowExit
}

func (s *Shell) setBuiltin(args []string) {
	defer s.configure()
	for len(args) > 0 {
		arg := args[0]
		if arg == "--" || arg == "-" {
			s.keepParams(args[1:])
			return
		}
		if len(arg) < 2 || (arg[0] != '-' && arg[0] != '+') {
			s.keepParams(args)
			return
		}
		args = args[1:]
		on := arg[0] == '-'
		for i := 1; i < len(arg); i++ {
			if arg[i] == 'o' {
				if len(args) == 0 {
					s.printOptions()
					return
				}
				if !s.opts.setName(args[0], on) {
					s.errorf("set: illegal option -o %s", args[0])
					s.status = 2
					return
				}
				args = args[1:]
				continue
			}
			if !s.opts.setLetter(arg[i], on) {
				s.errorf("set: illegal option -%c", arg[i])
				s.status = 2
				return
			}
		}
	}
}

func (s *Shell) printOptions() {
	for _, o := range s.opts.table() {
		state := "off"
		if o.on != nil && *o.on {
			state = "on"
		}
		s.write(1, o.name+"\t"+state+"\n")
	}
}

func (s *Shell) shopt(args []string) {
	defer s.configure()
	on, change := false, false
	for _, arg := range args {
		switch arg {
		case "-s", "-u":
			on, change = arg == "-s", true
		case "-q", "-p", "-o":
		default:
			opt := s.opts.shopt(arg)
			if opt == nil {
				if !change || on {
					s.fail("shopt: %s: invalid shell option name", arg)
				}
				continue
			}
			if change {
				*opt = on
			} else if !*opt {
				s.status = 1
			}
		}
	}
}

func (s *Shell) umaskBuiltin(args []string) {
	if len(args) == 0 {
		s.write(1, "0"+strconv.FormatInt(int64(s.umask)+0o1000, 8)[1:]+"\n")
		return
	}
	n, err := strconv.ParseUint(args[0], 8, 16)
	if err != nil || n > 0o777 {
		s.fail("umask: illegal mode: %s", args[0])
		return
	}
	s.umask = int(n)
}
