package dialect

import (
	"fmt"
	"strings"
)

// Table is the dialect's fields as a table in Markdown, as its page has it.
func Table(d Dialect) string {
	var b strings.Builder
	b.WriteString("| on | field | is | as |\n|---|---|---|---|\n")
	for _, f := range d.Fields() {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", f.Kind, f.Field, f.Is, f.Note)
	}
	return b.String()
}
