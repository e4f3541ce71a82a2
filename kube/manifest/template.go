package manifest

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// mark is where a template puts something in, before any quote of the line. Objects that are no templates have such text in quotes,
	// as Argo's "{{inputs.parameters.x}}": without quotes YAML does not take it.
	mark = regexp.MustCompile(`^[^#"']*(\{\{|\{%)`)
	// ofHelm is what templates of Helm have, and templates of Jinja and plain ones of Go do not.
	ofHelm = regexp.MustCompile(`\{\{-?\s*(?:/\*|(?:if|with|range|else if|and|or|not|default|toYaml|tpl|include|template|define|printf|quote|required|end)\b|[($]*\.(?:Values|Release|Chart|Capabilities|Template|Files)\b)`)
	// ofJinja is what templates of Jinja alone have.
	ofJinja = regexp.MustCompile(`\{%`)
)

// unrendered says that a document that cannot be read is a template, and how it is rendered; nil: it is none.
func (t *text) unrendered() *Error {
	if t.json {
		return nil
	}
	line := t.start
	for l := range bytes.Lines(t.bytes) {
		if mark.Match(l) {
			how := "render it first, and check what comes out: RENDERER | berth check -f -"
			switch {
			case ofJinja.Match(t.bytes):
				how = "render it with Jinja first: jinja2 " + t.name() + " VALUES | berth check -f -"
			case ofHelm.Match(t.bytes):
				how = "render its chart first: helm template CHART | berth check -f -"
			}
			return &Error{File: t.file, Line: line, Text: "is a template with places that are still to be filled in: " + how}
		}
		line++
	}
	return nil
}

func (t *text) name() string {
	if t.file == Stdin {
		return "TEMPLATE"
	}
	return t.file
}

// noObject says what a file that has no kind is, where its name is one that a tool gives it, and how manifests come of it; "": it is not known.
func (t *text) noObject() string {
	dir := filepath.Dir(t.file)
	switch name := filepath.Base(t.file); strings.TrimSuffix(name, filepath.Ext(name)) {
	case "kustomization":
		return "is a kustomization: kubectl kustomize " + dir + " | berth check -f -"
	case "Chart", "values":
		return "is of a chart of Helm: helm template " + dir + " | berth check -f -"
	}
	return ""
}
