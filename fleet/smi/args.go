package smi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verb is what a command line without a subcommand asks for.
type verb string

const (
	verbSummary       verb = "summary"
	verbHelp          verb = "help"
	verbVersion       verb = "version"
	verbList          verb = "list"
	verbExcluded      verb = "excluded"
	verbLog           verb = "log" // -q
	verbQueryGPU      verb = "query-gpu"
	verbQueryApps     verb = "query-compute-apps"
	verbMIG           verb = "mig" // -mig 0|1
	verbHelpQueryGPU  verb = "help-query-gpu"
	verbHelpQueryApps verb = "help-query-compute-apps"
)

// options is a parsed command line.
type options struct {
	verb    verb
	fields  []string      // of a query, as written
	format  format        // of a query
	ids     []string      // -i; nil: all GPUs
	display []string      // -d, upper case; nil: everything
	loop    time.Duration // 0: once
	mig     string        // -mig: 0 or 1
}

// format is how a query is printed.
type format struct{ noHeader, noUnits bool }

// word is one option as given.
type word struct {
	option
	name  string // without its value
	text  string // as written
	given string // its value
	has   bool   // a value was given
}

// parse reads a command line that does not begin with a subcommand.
func parse(args []string) (options, *failure) {
	words, err := tokens(args)
	if err != nil {
		return options{}, err
	}
	o := options{verb: verbOf(words)}
	for _, w := range words {
		if err := o.allows(w); err != nil {
			return options{}, err
		}
		if err := o.apply(w); err != nil {
			return options{}, err
		}
	}
	return o, nil
}

// tokens splits args into options with their values.
func tokens(args []string) ([]word, *failure) {
	var words []word
	for i := 0; i < len(args); i++ {
		w := word{name: args[i], text: args[i]}
		if strings.HasPrefix(w.text, "--") {
			w.name, w.given, w.has = strings.Cut(w.text, "=")
		}
		if unavailable[w.name] {
			return nil, notAvailable(w.name)
		}
		var known bool
		if w.option, known = flags[w.name]; !known || (w.has && w.value == noValue) {
			return nil, unrecognized(w.text)
		}
		if takesNext(w, args[i+1:]) {
			i++
			w.given, w.has = args[i], true
		}
		if w.value == needsValue && !w.has {
			return nil, &failure{fmt.Sprintf("ERROR: Option %s is missing its value. Please run 'nvidia-smi -h' for help.\n\n", w.name), exitUsage}
		}
		words = append(words, w)
	}
	return words, nil
}

// takesNext says whether the next argument is the option's value. An optional value is never
// something that looks like an option.
func takesNext(w word, rest []string) bool {
	if w.has || len(rest) == 0 || w.value == noValue {
		return false
	}
	return w.value == needsValue || !strings.HasPrefix(rest[0], "-")
}

func unrecognized(option string) *failure {
	return &failure{fmt.Sprintf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", option), exitUsage}
}

// verbOf is the first option that is a command by itself.
func verbOf(words []word) verb {
	for _, w := range words {
		if isVerb(w.key) {
			return verb(w.key)
		}
	}
	return verbSummary
}

func isVerb(key string) bool {
	switch key {
	case "id", "display", "xml", "loop", "loop-ms", "format":
		return false
	}
	return true
}

// allows refuses what cannot stand beside the verb, in the words the real program has for it.
func (o *options) allows(w word) *failure {
	if w.key == string(o.verb) || slices.Contains(companions[o.verb], w.key) {
		return nil
	}
	if o.verb == verbSummary {
		switch w.key {
		case "format":
			return unrecognized(w.text)
		case "xml":
			return combination("-x/--xml-format to run an XML query.")
		case "display":
			return combination("-d/--display to run a filtered query.")
		}
	}
	return &failure{fmt.Sprintf("ERROR: Option %s is not valid for this command. Please run 'nvidia-smi -h' for help.\n\n", w.text), exitBadArgument}
}

func combination(with string) *failure {
	return &failure{"Invalid combination of input arguments. Specify -q/--query and " + with +
		"  Please run 'nvidia-smi -h' for help.\n\n", exitBadArgument}
}

func (o *options) apply(w word) (err *failure) {
	switch w.key {
	case string(verbQueryGPU), string(verbQueryApps):
		o.fields = splitList(w.given)
	case "id":
		o.ids = append(o.ids, splitList(w.given)...)
	case "format":
		o.format, err = parseFormat(w.given)
	case "display":
		o.display, err = parseDisplay(w.given)
	case "loop":
		o.loop, err = parseLoop(w, time.Second)
	case "loop-ms":
		o.loop, err = parseLoop(w, time.Millisecond)
	case string(verbMIG):
		o.mig, err = parseSwitch(w)
	case "xml":
		return notAvailable(w.name)
	}
	return err
}

// parseSwitch reads the value of an option that turns something on or off.
func parseSwitch(w word) (string, *failure) {
	switch strings.ToUpper(w.given) {
	case "0", "DISABLED":
		return "0", nil
	case "1", "ENABLED":
		return "1", nil
	}
	return "", &failure{fmt.Sprintf("Invalid value for option %s. Possible values: 0/DISABLED, 1/ENABLED\n", w.name), exitBadArgument}
}

func splitList(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func parseFormat(s string) (format, *failure) {
	var f format
	for _, part := range splitList(s) {
		switch part {
		case "", "csv":
		case "noheader":
			f.noHeader = true
		case "nounits":
			f.noUnits = true
		default:
			return f, &failure{"Format modifier is not recognized.\n", exitBadArgument}
		}
	}
	return f, nil
}

// maxLoop keeps an interval within what a time.Duration can hold.
const maxLoop = 24 * 60 * 60 * 1000

// parseLoop reads the interval of -l and -lms. Without a number it is five seconds.
func parseLoop(w word, unit time.Duration) (time.Duration, *failure) {
	n, err := strconv.Atoi(w.given)
	if err != nil {
		return 5 * time.Second, nil
	}
	if n <= 0 {
		return 0, &failure{"Provided [-l(ms) | --loop(-ms)=] value is incorrect. Loop frequency must be greater than 0.\n\n", exitBadArgument}
	}
	return time.Duration(min(n, maxLoop)) * unit, nil
}
