package main

import (
	"fmt"
	"path"
	"strings"
)

// document is the part of docs/conformance.md that follows from the tables here.
func document() string {
	var b strings.Builder
	b.WriteString("### Rows that are run\n\n| row | semantic | upstream's test |\n|---|---|---|\n")
	for _, t := range tests {
		fmt.Fprintf(&b, "| %d | %s | `%s/%s` %s |\n", t.row, t.semantic, t.dir, t.at, t.name)
	}
	b.WriteString("\n### Exceptions\n\n")
	if len(exceptions) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| case | upstream | why |\n|---|---|---|\n")
	}
	for _, e := range exceptions {
		dir, name, _ := strings.Cut(e.key, ".")
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", name, path.Join(dir, e.at), e.why)
	}
	b.WriteString("\n### Not yet\n\nOf the tests above, these cases are not run and not counted:\n\n| test | cases | why |\n|---|---|---|\n")
	for _, d := range later {
		fmt.Fprintf(&b, "| `%s` %s | `%s` | %s |\n", d.dir, d.test, strings.ReplaceAll(d.name, "|", "\\|"), d.why)
	}
	b.WriteString("\nOf class A these rows are not run at all:\n\n| rows | semantic | upstream | why |\n|---|---|---|---|\n")
	for _, a := range absent {
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", a.rows, a.semantic, a.upstream, a.why)
	}
	return b.String()
}
