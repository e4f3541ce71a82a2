package shell

import (
	"fmt"
	"strings"
)

// options are the parsed flags of a command: the values by letter, in the order given; a
// flag that takes none has empty values.
type options map[byte][]string

func (o options) has(flag byte) bool { return len(o[flag]) > 0 }

// value is what a flag was last given, or otherwise.
func (o options) value(flag byte, otherwise string) string {
	if v := o[flag]; len(v) > 0 {
		return v[len(v)-1]
	}
	return otherwise
}

// parseFlags reads options as getopt does: -abc, -n 3, -n3, -- to end them. Options may come
// after arguments unless spec starts with +.
func parseFlags(spec string, args []string) (options, []string, error) {
	spec, inOrder := strings.CutPrefix(spec, "+")
	opts := options{}
	rest := []string{}
	for len(args) > 0 {
		before, arg := args, args[0]
		args = args[1:]
		switch {
		case arg == "--" && inOrder:
			return opts, args, nil
		case arg == "--":
			return opts, append(rest, args...), nil
		case len(arg) < 2 || arg[0] != '-':
			if inOrder {
				return opts, before, nil // not a copy: env env env ... is handed on many times
			}
			rest = append(rest, arg)
			continue
		case strings.HasPrefix(arg, "--"):
			return nil, nil, fmt.Errorf("unrecognized option: %s", strings.TrimPrefix(arg, "--"))
		}
		var err error
		if args, err = opts.cluster(spec, arg[1:], args); err != nil {
			return nil, nil, err
		}
	}
	return opts, rest, nil
}

// cluster reads the letters of one argument; a value may be the next one.
func (o options) cluster(spec, letters string, args []string) ([]string, error) {
	for i := range len(letters) {
		flag := letters[i]
		at := strings.IndexByte(spec, flag)
		if at < 0 || flag == ':' {
			return nil, fmt.Errorf("unrecognized option: %c", flag)
		}
		if at+1 == len(spec) || spec[at+1] != ':' {
			o[flag] = append(o[flag], "")
			continue
		}
		value := letters[i+1:]
		if value == "" {
			if len(args) == 0 {
				return nil, fmt.Errorf("option requires an argument: %c", flag)
			}
			value, args = args[0], args[1:]
		}
		o[flag] = append(o[flag], value)
		return args, nil
	}
	return args, nil
}
