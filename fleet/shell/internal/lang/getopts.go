package lang

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// getopts parses the next flag of the parameters into a variable.
func (s *Shell) getopts(args []string) {
	if len(args) < 2 || !syntax.ValidName(args[1]) {
		s.errorf("usage: getopts optstring var [arg ...]")
		s.status = 2
		return
	}
	spec, name, words := args[0], args[1], s.params
	if len(args) > 2 {
		words = args[2:]
	}
	at, err := strconv.Atoi(s.value("OPTIND"))
	if err != nil || at < 1 {
		at = 1
	}
	if at == 1 && s.optPos == 0 {
		s.optPos = 1
	}
	if s.set("OPTARG", expand.Variable{}); at > len(words) || !isFlag(words[at-1]) {
		s.optionsEnd(name, at, words)
		return
	}
	word := words[at-1]
	pos := max(s.optPos, 1)
	if pos >= len(word) {
		pos = 1
	}
	flag := word[pos]
	pos++
	if pos >= len(word) {
		at, pos = at+1, 1
	}
	s.optionFound(spec, name, words, word, flag, at, pos)
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' && word != "--" }

func (s *Shell) optionsEnd(name string, at int, words []string) {
	if at <= len(words) && words[at-1] == "--" {
		at++
	}
	s.optPos = 0
	s.setString("OPTIND", strconv.Itoa(at))
	s.setString(name, "?")
	s.status = 1
}

// optionFound sets the variables for one flag; at and pos are where the next one is.
func (s *Shell) optionFound(spec, name string, words []string, word string, flag byte, at, pos int) {
	silent := strings.HasPrefix(spec, ":")
	i := strings.IndexByte(strings.TrimPrefix(spec, ":"), flag)
	known := strings.TrimPrefix(spec, ":")
	result := string(flag)
	switch {
	case i < 0 || flag == ':':
		result = "?"
		s.optionError(silent, "Illegal option -%c", flag)
	case i+1 < len(known) && known[i+1] == ':':
		switch {
		case pos > 1:
			s.setString("OPTARG", word[pos:])
			at++
		case at <= len(words):
			s.setString("OPTARG", words[at-1])
			at++
		default:
			result = "?"
			if silent {
				result = ":"
			}
			s.optionError(silent, "No arg for -%c option", flag)
		}
		pos = 1
	}
	s.optPos = pos
	s.setString("OPTIND", strconv.Itoa(at))
	s.setString(name, result)
}

// optionError prints a complaint, or leaves the flag in OPTARG where the script handles it.
func (s *Shell) optionError(silent bool, format string, flag byte) {
	if silent {
		s.setString("OPTARG", string(flag))
		return
	}
	s.errorf(format, flag)
}
