package smi

import (
	"fmt"
	"strings"
)

// field is one column of a query over rows of type T.
type field[T any] struct {
	name  string
	alias string // another name for it; empty: none
	unit  string // printed in the header and after every value that is one
	value func(r *run, row T) string
}

func (f field[T]) called(name string) bool {
	return name == f.name || (f.alias != "" && name == f.alias)
}

// header names the unit even where the values are printed without it.
func (f field[T]) header() string {
	if f.unit == "" {
		return f.name
	}
	return fmt.Sprintf("%s [%s]", f.name, f.unit)
}

func (f field[T]) cell(r *run, row T, noUnits bool) string {
	s := f.value(r, row)
	if s == na {
		return "[N/A]"
	}
	if f.unit == "" || noUnits {
		return s
	}
	return s + " " + f.unit
}

// columns finds the fields that names ask for. A single empty name is an empty selection.
func columns[T any](all []field[T], names []string) ([]field[T], *failure) {
	if len(names) == 1 && names[0] == "" {
		return nil, nil
	}
	var out []field[T]
	for _, name := range names {
		f, ok := find(all, name)
		if !ok {
			return nil, &failure{fmt.Sprintf("Field %q is not a valid field to query.\n\n", name), exitBadArgument}
		}
		out = append(out, f)
	}
	return out, nil
}

func find[T any](all []field[T], name string) (field[T], bool) {
	for _, f := range all {
		if f.called(name) {
			return f, true
		}
	}
	return field[T]{}, false
}

// csv renders rows; the header comes first where it is wanted.
func csv[T any](r *run, cols []field[T], rows []T, f format, header bool) string {
	var b strings.Builder
	line := make([]string, len(cols))
	if header && !f.noHeader {
		for i, c := range cols {
			line[i] = c.header()
		}
		b.WriteString(strings.Join(line, ", ") + "\n")
	}
	for _, row := range rows {
		for i, c := range cols {
			line[i] = c.cell(r, row, f.noUnits)
		}
		b.WriteString(strings.Join(line, ", ") + "\n")
	}
	return b.String()
}

func (r *run) queryGPU(o options) *failure {
	cols, err := columns(gpuFields(), o.fields)
	if err != nil {
		return err
	}
	return r.repeat(o.loop, o.ids, func(gpus []view, first bool) {
		r.print(csv(r, cols, gpus, o.format, first))
	})
}

func (r *run) queryApps(o options) *failure {
	cols, err := columns(appFields(), o.fields)
	if err != nil {
		return err
	}
	return r.repeat(o.loop, o.ids, func(gpus []view, first bool) {
		r.print(csv(r, cols, apps(gpus), o.format, first))
	})
}

// describeFields is the answer to --help-query-gpu and its like.
func describeFields[T any](option string, all []field[T]) string {
	var b strings.Builder
	fmt.Fprintf(&b, "List of valid properties to query for the switch %q:\n\n", option)
	for _, f := range all {
		fmt.Fprintf(&b, "%q", f.name)
		if f.alias != "" {
			fmt.Fprintf(&b, " or %q", f.alias)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
