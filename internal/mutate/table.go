package main

import (
	"fmt"
	"io"
	"time"
)

// table writes one row per mark.
type table struct {
	out         io.Writer
	name, place int // widths
	count       map[outcome]int
}

func newTable(out io.Writer, marks []mark) *table {
	t := &table{out: out, count: map[outcome]int{}}
	for _, m := range marks {
		t.name, t.place = max(t.name, len(m.name)), max(t.place, len(m.place()))
	}
	return t
}

func (t *table) list(m mark) { fmt.Fprintf(t.out, "%-*s  %s\n", t.name, m.name, m.place()) }

func (t *table) row(m mark, v verdict, took time.Duration) {
	t.count[v.outcome]++
	fmt.Fprintf(t.out, "%-*s  %-*s  %s  %.1fs\n", t.name, m.name, t.place, m.place(), v, took.Seconds())
	if v.outcome == broken {
		fmt.Fprint(t.out, v.output)
	}
}

// summary reports whether all were killed.
func (t *table) summary() bool {
	fmt.Fprintf(t.out, "%d killed, %d survived, %d do not compile\n", t.count[killed], t.count[survived], t.count[broken])
	return t.count[survived]+t.count[broken] == 0
}
