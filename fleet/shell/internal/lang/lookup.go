package lang

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// commandBuiltin runs a command without looking at functions, or with -v says what it is.
func (s *Shell) commandBuiltin(args []string) {
	mode := byte(0)
	for len(args) > 0 && len(args[0]) == 2 && args[0][0] == '-' {
		switch flag := args[0][1]; flag {
		case 'v', 'V':
			mode = flag
		case 'p', '-':
		default:
			s.errorf("command: illegal option -%c", flag)
			s.status = 2
			return
		}
		args = args[1:]
	}
	switch {
	case len(args) == 0:
	case mode == 'V':
		s.typeBuiltin(args)
	case mode == 'v':
		s.commandV(args)
	case s.builtin(args):
	default:
		s.external(args)
	}
}

func (s *Shell) commandV(names []string) {
	for _, name := range names {
		if syntax.IsKeyword(name) || s.funcs[name] != nil || IsBuiltin(name) {
			s.write(1, name+"\n")
			continue
		}
		if at, ok := s.find(name); ok {
			s.write(1, at+"\n")
			continue
		}
		s.status = 127
	}
}

func (s *Shell) find(name string) (string, bool) { return s.host.Find(s.dir, s.value("PATH"), name) }

func (s *Shell) typeBuiltin(names []string) {
	short := false
	for _, name := range names {
		switch name {
		case "-t":
			short = true
			continue
		case "-a", "-f", "-p", "-P":
			continue
		}
		word, sentence := s.kindOf(name)
		switch {
		case word == "":
			s.status = 127
			if !short {
				s.errorf("%s: not found", name)
			}
		case short:
			s.write(1, word+"\n")
		default:
			s.write(1, name+" is "+sentence+"\n")
		}
	}
}

// kindOf says what a name would run, in one word and in a few; empty: nothing.
func (s *Shell) kindOf(name string) (word, sentence string) {
	switch {
	case syntax.IsKeyword(name):
		return "keyword", "a shell keyword"
	case s.funcs[name] != nil:
		return "function", "a function"
	case IsBuiltin(name):
		return "builtin", "a shell builtin"
	}
	if at, ok := s.find(name); ok {
		return "file", at
	}
	return "", ""
}

// sourceFile runs a file in this shell; a name without a slash is looked for in $PATH first.
func (s *Shell) sourceFile(args []string) {
	if len(args) < 2 {
		s.errorf("%s: filename argument required", args[0])
		s.status = 2
		return
	}
	file, ok := s.sourcePath(args[1])
	if s.hold(ScriptCost(s.fs, s.abs(file))) != nil {
		s.stopped()
		return
	}
	data, err := s.fs.ReadHead(s.abs(file), MaxScript+1)
	if !ok || err != nil {
		s.fail("%s: can't open '%s': No such file or directory", args[0], args[1])
		s.leave()
		return
	}
	undo := func() {}
	if len(args) > 2 {
		undo = s.setParams(args[2:])
	}
	s.sourceDepth++
	s.source(string(data))
	s.sourceDepth--
	undo()
	if s.flow == flowReturn {
		s.flow = flowNone
	}
}

// MaxPath is how many directories of $PATH are looked at.
const MaxPath = 64

// ScriptCost is what reading a script takes.
func ScriptCost(f *vfs.FS, name string) int64 {
	info, err := f.Stat(name)
	if err != nil {
		return 0
	}
	return 3 * min(info.Size(), MaxScript)
}

func (s *Shell) sourcePath(name string) (string, bool) {
	if strings.Contains(name, "/") {
		return name, true
	}
	for i, dir := range strings.SplitN(s.value("PATH"), ":", MaxPath+1) {
		if i == MaxPath {
			break
		}
		file := dir + "/" + name
		if info, err := s.fs.Stat(s.abs(file)); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return file, true
		}
	}
	return name, true
}

// unset removes variables, elements and functions.
func (s *Shell) unset(args []string) {
	vars, funcs := true, true
	for len(args) > 0 && len(args[0]) == 2 && args[0][0] == '-' {
		vars, funcs = args[0] == "-v", args[0] == "-f"
		args = args[1:]
	}
	for _, name := range args {
		if base, sub, ok := subscript(name); ok && vars {
			s.unsetElement(base, sub)
			continue
		}
		if vr, _ := s.vars.find(name); vars && vr.Declared() {
			s.set(name, expand.Variable{})
			continue
		}
		if funcs {
			s.forgetFunction(name)
		}
	}
}

// subscript splits name[sub].
func subscript(arg string) (name, sub string, ok bool) {
	name, rest, found := strings.Cut(arg, "[")
	if !found || !strings.HasSuffix(rest, "]") || !syntax.ValidName(name) {
		return "", "", false
	}
	return name, rest[:len(rest)-1], true
}

func (s *Shell) unsetElement(name, sub string) {
	vr, _ := s.vars.find(name)
	switch {
	case sub == "@" || sub == "*":
		vr = expand.Variable{}
	case vr.Kind == expand.Associative:
		vr.Map = cloneMap(vr.Map)
		delete(vr.Map, sub)
	case vr.Kind == expand.Indexed:
		i, ok := s.evalNumber(sub)
		if !ok {
			return
		}
		removeElement(&vr, i)
	default:
		return
	}
	s.set(name, vr)
}

// evalNumber evaluates text as an arithmetic expression, the way the shell itself would.
func (s *Shell) evalNumber(text string) (int, bool) {
	for st, err := range statements("(("+text+"\n))", s.mem) {
		if err != nil {
			break
		}
		cmd, ok := st.Cmd.(*syntax.ArithmCmd)
		if !ok {
			break
		}
		return s.arithm(cmd.X)
	}
	s.fail("arithmetic syntax error: %s", text)
	return 0, false
}

func (s *Shell) letBuiltin(args []string) {
	for _, a := range args {
		n, ok := s.evalNumber(a)
		if s.status = oneIf(!ok || n == 0); !ok {
			return
		}
	}
}
