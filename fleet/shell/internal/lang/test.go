package lang

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// test is the test command and its other name, [.
func (s *Shell) test(args []string) {
	name, args := args[0], args[1:]
	if name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			s.errorf("[: missing ]")
			s.status = 2
			return
		}
		args = args[:len(args)-1]
	}
	t := tester{shell: s, args: args}
	ok, err := t.all()
	if err != nil {
		s.errorf("%s: %v", name, err)
		s.status = 2
		return
	}
	s.status = oneIf(!ok)
}

// tester evaluates test's arguments by recursive descent: or, and, not, primary.
type tester struct {
	shell *Shell
	args  []string
	depth int
}

func (t *tester) all() (bool, error) {
	switch len(t.args) {
	case 0:
		return false, nil
	case 1:
		return t.args[0] != "", nil
	case 3: // with three arguments a binary operator in the middle decides
		if isBinary(t.args[1]) {
			return t.binary(t.args[0], t.args[1], t.args[2])
		}
	}
	ok, err := t.or()
	if err == nil && len(t.args) > 0 {
		err = fmt.Errorf("%s: unexpected operator", t.args[0])
	}
	return ok, err
}

func (t *tester) or() (bool, error) {
	ok, err := t.and()
	for err == nil && len(t.args) > 0 && t.args[0] == "-o" {
		t.args = t.args[1:]
		var next bool
		next, err = t.and()
		ok = ok || next
	}
	return ok, err
}

func (t *tester) and() (bool, error) {
	ok, err := t.not()
	for err == nil && len(t.args) > 0 && t.args[0] == "-a" {
		t.args = t.args[1:]
		var next bool
		next, err = t.not()
		ok = ok && next
	}
	return ok, err
}

func (t *tester) not() (bool, error) {
	negate := false
	for len(t.args) > 1 && t.args[0] == "!" {
		negate = !negate
		t.args = t.args[1:]
	}
	ok, err := t.primary()
	return ok != negate, err
}

func (t *tester) primary() (bool, error) {
	if len(t.args) == 0 {
		return false, errors.New("argument expected")
	}
	if len(t.args) >= 3 && isBinary(t.args[1]) {
		x, op, y := t.args[0], t.args[1], t.args[2]
		t.args = t.args[3:]
		return t.binary(x, op, y)
	}
	if t.args[0] == "(" && len(t.args) > 2 {
		return t.parens()
	}
	if len(t.args) >= 2 && isUnary(t.args[0]) {
		op, x := t.args[0], t.args[1]
		t.args = t.args[2:]
		return t.shell.unary(op, x), nil
	}
	x := t.args[0]
	t.args = t.args[1:]
	return x != "", nil
}

func (t *tester) parens() (bool, error) {
	if t.depth++; t.depth > 100 {
		return false, errNesting
	}
	t.args = t.args[1:]
	ok, err := t.or()
	if err != nil {
		return false, err
	}
	if len(t.args) == 0 || t.args[0] != ")" {
		return false, errors.New("closing paren expected")
	}
	t.args = t.args[1:]
	t.depth--
	return ok, nil
}

func isBinary(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

func isUnary(op string) bool {
	return len(op) == 2 && op[0] == '-' && strings.IndexByte("abcdefghknoprstuvwxzGLNORS", op[1]) >= 0
}

func (t *tester) binary(x, op, y string) (bool, error) {
	switch op {
	case "=", "==":
		return x == y, nil
	case "!=":
		return x != y, nil
	case "<":
		return x < y, nil
	case ">":
		return x > y, nil
	case "-nt", "-ot", "-ef":
		return t.shell.compareFiles(x, op, y), nil
	}
	a, err := testNumber(x)
	if err != nil {
		return false, err
	}
	b, err := testNumber(y)
	if err != nil {
		return false, err
	}
	return compareNumbers(a, op, b), nil
}

func testNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: bad number", text)
	}
	return n, nil
}

func compareNumbers(a int64, op string, b int64) bool {
	switch op {
	case "-eq":
		return a == b
	case "-ne":
		return a != b
	case "-lt":
		return a < b
	case "-le":
		return a <= b
	case "-gt":
		return a > b
	}
	return a >= b
}

func (s *Shell) compareFiles(x, op, y string) bool {
	a, errA := s.fs.Stat(s.abs(x))
	b, errB := s.fs.Stat(s.abs(y))
	switch op {
	case "-ef":
		return errA == nil && errB == nil && vfs.Same(a, b)
	case "-ot":
		a, b, errA, errB = b, a, errB, errA
	}
	return errA == nil && (errB != nil || a.ModTime().After(b.ModTime()))
}

// unary is test's operators with one operand. Everything is owned and readable by everyone:
// containers run as root.
func (s *Shell) unary(op, x string) bool {
	switch op[1] {
	case 'n':
		return x != ""
	case 'z':
		return x == ""
	case 'o':
		return s.optionOn(x)
	case 't':
		n, err := strconv.Atoi(x)
		return err == nil && n >= 0 && n < len(s.fds) && s.fds[n].TTY()
	case 'v':
		return s.isSet(x)
	case 'h', 'L':
		info, err := s.fs.Lstat(s.abs(x))
		return err == nil && info.Mode()&fs.ModeSymlink != 0
	case 'w':
		return s.fs.Writable(s.abs(x)) == nil
	}
	info, err := s.fs.Stat(s.abs(x))
	return err == nil && hasMode(info, op[1])
}

func hasMode(info vfs.Info, op byte) bool {
	mode := info.Mode()
	switch op {
	case 'f':
		return mode.IsRegular()
	case 'd':
		return mode.IsDir()
	case 'c':
		return mode&fs.ModeCharDevice != 0
	case 's':
		return info.Size() > 0
	case 'x':
		return mode.IsDir() || mode&0o111 != 0
	case 'b', 'p', 'S', 'g', 'u', 'k', 'N':
		return false
	}
	return true // -e, -a, -r, -O, -G
}

func (s *Shell) optionOn(name string) bool {
	for _, o := range s.opts.table() {
		if o.name == name && o.on != nil {
			return *o.on
		}
	}
	return false
}

func (s *Shell) isSet(name string) bool {
	base, sub, ok := subscript(name)
	if !ok {
		return environ{s}.Get(name).IsSet()
	}
	vr, _ := s.vars.find(base)
	if vr.Kind == expand.Associative {
		_, ok := vr.Map[sub]
		return ok
	}
	i, ok := s.evalNumber(sub)
	return ok && elementAt(vr, i) != ""
}
