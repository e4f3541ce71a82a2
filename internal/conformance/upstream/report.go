package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// report is what became of the tests.
type report struct {
	lines     []line
	surprises []string // what is not as the exceptions say
	failures  []string // keys of cases that fail and are no exceptions
}

// line is what became of one test's cases.
type line struct {
	test
	passed, failed, excepted int
}

// judge holds the outcomes of the tests against the exceptions.
func judge(got outcomes, ran []test, listed []exception) report {
	var r report
	for _, t := range ran {
		r.add(t, got, listed)
	}
	return r
}

func (r *report) add(t test, got outcomes, exceptions []exception) {
	l := line{test: t}
	cases := leaves(t, got)
	if len(cases) == 0 {
		r.surprises = append(r.surprises, t.key()+": nothing was heard of it")
	}
	for _, key := range cases {
		listed := slices.ContainsFunc(exceptions, func(e exception) bool { return e.key == key })
		failed := got[key] == "FAIL"
		switch {
		case failed && listed:
			l.excepted++
		case failed:
			l.failed++
			r.failures = append(r.failures, key)
			r.surprises = append(r.surprises, key+": fails, and is not among the exceptions")
		case listed:
			l.passed++
			r.surprises = append(r.surprises, key+": passes, and is among the exceptions")
		default:
			l.passed++
		}
	}
	r.lines = append(r.lines, l)
}

// leaves are the test's cases that have no cases of their own, or the test itself where it has none, sorted.
func leaves(t test, got outcomes) []string {
	var out []string
	all := slices.Sorted(maps.Keys(got))
	for _, key := range all {
		inner := slices.ContainsFunc(all, func(k string) bool { return strings.HasPrefix(k, key+"/") })
		if strings.HasPrefix(key, t.key()+"/") && !inner && got[key] != "SKIP" {
			out = append(out, key)
		}
	}
	if len(out) == 0 && got[t.key()] != "" {
		out = []string{t.key()}
	}
	return out
}

func (r report) fine() bool { return len(r.surprises) == 0 }

func (r report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3s  %-46s %6s %6s %8s  %s\n", "row", "test", "passed", "failed", "excepted", "semantic")
	var all line
	for _, l := range r.lines {
		fmt.Fprintf(&b, "%3d  %-46s %6d %6d %8d  %s\n", l.row, l.name, l.passed, l.failed, l.excepted, l.semantic)
		all.passed, all.failed, all.excepted = all.passed+l.passed, all.failed+l.failed, all.excepted+l.excepted
	}
	fmt.Fprintf(&b, "     %-46s %6d %6d %8d\n", "all", all.passed, all.failed, all.excepted)
	for _, s := range r.surprises {
		b.WriteString("! " + s + "\n")
	}
	return b.String()
}
