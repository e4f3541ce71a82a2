package smi

import "fmt"

// subcommand is the options that a subcommand was given, under their short names.
type subcommand map[string]string

// has says whether an option was given.
func (s subcommand) has(option string) bool {
	_, ok := s[option]
	return ok
}

// spelling maps every spelling of an option to its short name, and says whether a value
// follows it.
type spelling map[string]struct {
	short string
	value bool
}

// subOptions reads the options of a subcommand. The failure names the first that is unknown or
// lacks its value.
func subOptions(args []string, known spelling) (subcommand, *failure) {
	out := subcommand{}
	for i := 0; i < len(args); i++ {
		k, ok := known[args[i]]
		if !ok {
			return nil, &failure{fmt.Sprintf("Option %q is not recognized.\n", args[i]), exitBadArgument}
		}
		out[k.short] = ""
		if !k.value {
			continue
		}
		if i++; i == len(args) {
			return nil, &failure{fmt.Sprintf("Option %q is missing its value.\n", args[i-1]), exitBadArgument}
		}
		out[k.short] = args[i]
	}
	return out, nil
}

// ids is the GPUs that -i chose; nil: all.
func (s subcommand) ids() []string {
	if !s.has("-i") {
		return nil
	}
	return splitList(s["-i"])
}
