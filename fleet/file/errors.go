package file

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is one mistake in a fleet file.
type Error struct {
	File    string // as it was given to Parse
	Line    int    // from 1
	Field   string // "spec.gpus[0].count"; empty where the YAML itself is broken
	Message string
}

// Error is one line, whatever the file held: FILE:LINE: FIELD: MESSAGE.
func (e Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, oneLine(text))
}

// Errors is every mistake in a fleet file, by line. It is never empty.
type Errors []Error

// Error has one line for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted orders mistakes by line and says each only once.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(e)
}

// message puts a validation error into the words of a fleet file.
func message(err *field.Error) string {
	value := valueText(err.BadValue)
	switch err.Type {
	case field.ErrorTypeRequired:
		return "required: " + err.Detail
	case field.ErrorTypeDuplicate:
		return fmt.Sprintf("duplicate %s", value)
	case field.ErrorTypeNotSupported:
		return notSupported(err)
	case field.ErrorTypeForbidden:
		return err.Detail
	}
	return fmt.Sprintf("%s (%s)", err.Detail, value)
}

// notSupported reads the values that would have been fine out of the error's detail, which
// lists them quoted, and points at the nearest.
func notSupported(err *field.Error) string {
	var values []string
	for quoted := range strings.SplitSeq(strings.TrimPrefix(err.Detail, "supported values: "), ", ") {
		if value, bad := strconv.Unquote(quoted); bad == nil {
			values = append(values, value)
		}
	}
	list := strings.Join(values, ", ")
	given := fmt.Sprint(err.BadValue)
	if given == "" {
		return "required: one of " + list
	}
	hint := suggest(given, values)
	if why := oneWay(err.Field); why != "" {
		hint = why
	}
	return fmt.Sprintf("must be one of %s (%s)%s", list, valueText(given), hint)
}

// oneWay explains the one field where people look for a way to say two things.
func oneWay(path string) string {
	if path != "spec.advertise" {
		return ""
	}
	return "; a pool advertises by device-plugin or by dra, never both"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9._+-]+$`)

// valueText shows a value, in quotes unless it is one plain word.
func valueText(v any) string {
	text := fmt.Sprint(v)
	if plain.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}

// oneLine escapes what would break a line or a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
