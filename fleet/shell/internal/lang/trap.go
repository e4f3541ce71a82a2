package lang

import (
	"fmt"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// trap sets, removes or lists what the shell does on signals, on EXIT and on ERR.
func (s *Shell) trap(args []string) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case len(args) == 0 || args[0] == "-p":
		s.printTraps()
	case args[0] == "-l":
		s.listSignals()
	case len(args) == 1:
		s.setTraps("-", args)
	default:
		if _, err := strconv.Atoi(args[0]); err == nil { // trap 2 15: back to the default
			s.setTraps("-", args)
			return
		}
		s.setTraps(args[0], args[1:])
	}
}

// maxAction bounds what a trap runs.
const maxAction = 64 << 10

func (s *Shell) setTraps(action string, conditions []string) {
	if len(action) > maxAction {
		s.fail("trap: action too long")
		return
	}
	for _, cond := range conditions {
		if !s.setTrap(action, cond) {
			s.fail("trap: %s: invalid signal specification", cond)
		}
	}
}

func (s *Shell) setTrap(action, cond string) bool {
	text := action
	if action == "-" {
		text = ""
	}
	switch strings.ToUpper(strings.TrimPrefix(cond, "SIG")) {
	case "EXIT", "0":
		s.exit = text
		return true
	case "ERR":
		s.failed = text
		return true
	case "DEBUG", "RETURN":
		return true
	}
	sig, ok := ParseSignal(cond)
	switch {
	case !ok:
	case action == "-":
		s.sig.remove(sig)
	default:
		s.sig.trap(sig, action)
	}
	return ok
}

func (s *Shell) printTraps() {
	var b strings.Builder
	show := func(action, name string) {
		q, err := syntax.Quote(action, syntax.LangBash)
		if err != nil {
			q = action
		}
		fmt.Fprintf(&b, "trap -- %s %s\n", q, name)
	}
	if s.exit != "" {
		show(s.exit, "EXIT")
	}
	if s.failed != "" {
		show(s.failed, "ERR")
	}
	for _, n := range signalNames {
		if action, ok := s.sig.action(n.sig); ok {
			show(action, n.name)
		}
	}
	s.write(1, b.String())
}

func (s *Shell) listSignals() {
	var b strings.Builder
	for _, n := range signalNames {
		fmt.Fprintf(&b, "%2d) %s\n", n.sig, n.name)
	}
	s.write(1, b.String())
}
