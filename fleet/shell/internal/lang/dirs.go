package lang

import (
	"path"
	"slices"
	"strings"
)

// cd changes the directory; the path is kept as written, links included.
func (s *Shell) cd(args []string) {
	for len(args) > 0 && (args[0] == "-L" || args[0] == "-P" || args[0] == "--") {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		s.changeDir("cd", s.value("HOME"))
	case len(args) > 1:
		s.errorf("cd: too many arguments")
		s.status = 2
	case args[0] == "-":
		if s.changeDir("cd", s.value("OLDPWD")) {
			s.write(1, s.dir+"\n")
		}
	default:
		s.changeDir("cd", args[0])
	}
}

func (s *Shell) changeDir(cmd, name string) bool {
	dir := path.Clean(s.abs(name))
	info, err := s.fs.Stat(s.abs(name))
	switch {
	case name == "" || err != nil:
		s.fail("%s: can't cd to %s: No such file or directory", cmd, name)
		return false
	case !info.IsDir():
		s.fail("%s: can't cd to %s: Not a directory", cmd, name)
		return false
	}
	s.setString("OLDPWD", s.dir)
	s.dir = dir
	return s.setString("PWD", dir)
}

func (s *Shell) pwd(args []string) {
	dir := s.dir
	if slices.Contains(args, "-P") {
		if real, err := s.fs.RealPath(dir); err == nil {
			dir = real
		}
	}
	s.write(1, dir+"\n")
}

func (s *Shell) printDirs() {
	s.write(1, strings.Join(append([]string{s.dir}, s.dirs...), " ")+"\n")
}

// maxDirs bounds pushd's stack.
const maxDirs = 256

func (s *Shell) stackDirs(args []string) {
	from := s.dir
	if len(s.dirs) >= maxDirs && args[0] == "pushd" {
		s.fail("pushd: directory stack full")
		return
	}
	switch {
	case args[0] == "popd" || len(args) == 1:
		if len(s.dirs) == 0 {
			s.fail("%s: directory stack empty", args[0])
			return
		}
		if !s.changeDir(args[0], s.dirs[0]) {
			return
		}
		s.dirs = s.dirs[1:]
		if args[0] == "pushd" {
			s.dirs = append([]string{from}, s.dirs...)
		}
	default:
		if !s.changeDir(args[0], args[1]) {
			return
		}
		s.dirs = append([]string{from}, s.dirs...)
	}
	s.printDirs()
}
