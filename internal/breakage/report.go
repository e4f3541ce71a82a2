package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bars, in percent of the counted mutations.
var bars = []struct {
	name string
	bar  float64
	of   func(*result) bool
}{
	{"layer", 95, func(r *result) bool { return r.layer }},
	{"cause", 90, func(r *result) bool { return r.cause }},
	{"owner", 90, func(r *result) bool { return r.owner }},
	{"fix", 85, func(r *result) bool { return r.fix }},
}

// right says whether nothing is wrong with an answer.
func (r *result) right() bool {
	return r.layer && r.cause && r.owner && r.fix && !r.allClear && !r.failed()
}

// failed says whether a fix that was printed did not work.
func (r *result) failed() bool {
	return slices.ContainsFunc(r.tried, func(a attempt) bool { return !a.works })
}

// line is a result in a few lines.
func (r *result) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5d %-9s %s/%s %s: %s", r.index, r.result, strings.ToLower(r.kind.name), r.alias, r.path, r.change)
	fmt.Fprintf(&b, " (%.0fs, settled in %.0f, asked by %.0f)", r.took.Seconds(), r.settled.Seconds(), r.asked.Seconds())
	if r.lost != "" {
		fmt.Fprintf(&b, "\n      the cell was replaced: %s", firstLine(r.lost))
	}
	if r.result != counted {
		fmt.Fprintf(&b, "\n      %s", firstLine(r.why))
		return b.String()
	}
	fmt.Fprintf(&b, "\n      %s %s -> %s %s %s: %s", r.target, r.seen, r.answer.Layer, r.answer.Cause, r.answer.Owner, r.answer.Summary)
	for _, k := range r.answer.Blockers[min(1, len(r.answer.Blockers)):] {
		fmt.Fprintf(&b, "\n      also %s %s %v: %s", k.Layer, k.Cause, k.Binding, k.Message)
	}
	for _, f := range r.answer.Fixes {
		fmt.Fprintf(&b, "\n      fix: %s", f.Edit)
	}
	for _, a := range r.tried {
		fmt.Fprintf(&b, "\n      tried %q: works %v, reverts %v %s", a.edit, a.works, a.revert, firstLine(a.note))
	}
	var wrong []string
	for _, m := range bars {
		if !m.of(r) {
			wrong = append(wrong, m.name)
		}
	}
	if r.allClear {
		wrong = append(wrong, "ALL-CLEAR")
	}
	if len(wrong) > 0 {
		fmt.Fprintf(&b, "\n      wrong: %s (old value findable: %v)", strings.Join(wrong, ", "), r.findable)
	}
	return b.String()
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > 240 {
		s = s[:240] + "..."
	}
	return s
}

func (c change) String() string {
	short := func(v any) string {
		s := fmt.Sprint(v)
		if len(s) > 60 {
			s = s[:60] + "..."
		}
		return s
	}
	switch c.way {
	case "":
		return ""
	case remove:
		return "remove " + short(c.old)
	case rename:
		return fmt.Sprintf("rename to %s", c.key)
	}
	return fmt.Sprintf("%s: %s -> %s", c.way, short(c.old), short(c.new))
}

// report prints the figures, and says whether all bars are met.
func report(out io.Writer, o options, results []result) bool {
	of := func(kind string) (out []result) {
		for _, r := range results {
			if r.result == kind {
				out = append(out, r)
			}
		}
		return out
	}
	reasons(out, "Skipped", of(skipped))
	reasons(out, "Not counted", of(uncounted))
	list := of(counted)
	wrong := 0
	for i := range list {
		if list[i].right() {
			continue
		}
		if wrong++; wrong == 1 {
			fmt.Fprintln(out, "\nWrong answers:")
		}
		fmt.Fprintln(out, list[i].line())
		fmt.Fprintf(out, "      replay: go run ./internal/breakage -only %d/%d\n", o.seed, list[i].index)
	}
	return table(out, o, results, list)
}

// reasons lists results by their reason, without the names in it.
func reasons(out io.Writer, title string, list []result) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s: %d\n", title, len(list))
	for _, r := range list {
		fmt.Fprintf(out, "  %5d %s/%s %s (%s): %s\n", r.index, strings.ToLower(r.kind.name), r.alias, r.path, r.way, firstLine(r.why))
	}
}

func table(out io.Writer, o options, all, list []result) bool {
	kinds := map[string]bool{}
	for i := range all {
		kinds[all[i].kind.name] = true
	}
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	fmt.Fprintf(out, "\n%-24s %5s %7s", "kind", "tried", "counted")
	for _, m := range bars {
		fmt.Fprintf(out, " %7s", m.name)
	}
	fmt.Fprintln(out)
	row := func(name string, tried int, list []result) {
		fmt.Fprintf(out, "%-24s %5d %7d", name, tried, len(list))
		for _, m := range bars {
			if len(list) == 0 {
				fmt.Fprintf(out, " %7s", "-")
				continue
			}
			fmt.Fprintf(out, " %6.1f%%", percent(list, m.of))
		}
		fmt.Fprintln(out)
	}
	for _, name := range names {
		of := func(in []result) (out []result) {
			for _, r := range in {
				if r.kind.name == name {
					out = append(out, r)
				}
			}
			return out
		}
		row(name, len(of(all)), of(list))
	}
	row("all", len(all), list)
	return judge(out, o, list)
}

func percent(list []result, right func(*result) bool) float64 {
	n := 0
	for i := range list {
		if right(&list[i]) {
			n++
		}
	}
	return 100 * float64(n) / float64(max(1, len(list)))
}

func judge(out io.Writer, o options, list []result) bool {
	clears, tried, works := 0, 0, 0
	for i := range list {
		if list[i].allClear {
			clears++
		}
		for _, a := range list[i].tried {
			tried++
			if a.works {
				works++
			}
		}
	}
	fmt.Fprintf(out, "\nall-clears %d; printed fixes tried %d, worked %d\n", clears, tried, works)
	ok := clears == 0 && tried == works
	for _, m := range bars {
		if p := percent(list, m.of); p < m.bar {
			fmt.Fprintf(out, "FAIL: %s is right in %.1f %%, the bar is %.0f %%\n", m.name, p, m.bar)
			ok = false
		}
	}
	if o.only == nil && len(list) < o.count {
		fmt.Fprintf(out, "FAIL: %d mutations counted, wanted %d\n", len(list), o.count)
		ok = false
	}
	if clears > 0 || tried != works {
		fmt.Fprintln(out, "FAIL: an all-clear, or a printed fix that does not work")
	}
	if ok {
		fmt.Fprintf(out, "PASS; seed %d\n", o.seed)
	}
	return ok
}
