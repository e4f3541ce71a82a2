package cli

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/diagnose"
)

// unaddressed stands in front of commands from a bundle whose cluster is not known here. The shell refuses the command
// until the reader has set CLUSTER to the context of that cluster.
const unaddressed = `kubectl --context "${CLUSTER:?}"`

// address makes every command of the diagnosis act on the cluster that was asked. kubectl are the words that a command
// begins with.
func address(d *diagnose.Diagnosis, kubectl string) {
	for i := range d.Fixes {
		d.Fixes[i].Command = addressed(d.Fixes[i].Command, kubectl)
	}
	d.Advice = inText.ReplaceAllString(d.Advice, "${1}"+strings.ReplaceAll(kubectl, "$", "$$")+" ${2}")
}

// inText finds a kubectl command with its verb in a sentence.
var inText = regexp.MustCompile("(^|[ (`])kubectl ([a-z])")

// addressed puts the words in place of kubectl wherever the shell would run it; what is quoted stays as it is.
func addressed(script, kubectl string) string {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return inText.ReplaceAllString(script, "${1}"+strings.ReplaceAll(kubectl, "$", "$$")+" ${2}")
	}
	var out strings.Builder
	done := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if ok && len(call.Args) > 0 && call.Args[0].Lit() == "kubectl" {
			at, end := int(call.Args[0].Pos().Offset()), int(call.Args[0].End().Offset())
			out.WriteString(script[done:at])
			out.WriteString(kubectl)
			done = end
		}
		return true
	})
	return out.String() + script[done:]
}

// shellWord quotes a word for a shell where that is needed. What no POSIX shell can be given, such as a control
// character, is left for the reader to fill in: an empty word would mean kubectl's own choice.
func shellWord(word string) string {
	quoted, err := syntax.Quote(word, syntax.LangPOSIX)
	if err != nil || word == "" {
		return `"${CLUSTER:?}"`
	}
	return quoted
}
