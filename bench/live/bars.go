package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// bar is a promise and what was measured.
type bar struct {
	what string
	got  float64
	want float64
	most bool // want is the most that got may be, otherwise the least
}

func (b bar) met() bool {
	if b.most {
		return b.got <= b.want
	}
	return b.got >= b.want
}

// stall is how many seconds a scheduler that starts on 5,000 nodes and a backlog may take until something happens.
const stall = 3

// bars are those whose figures were measured.
func bars(t table) []bar {
	var out []bar
	ratio := func(what, measurement, figure, theirFigure, who string, want float64) {
		mine, ok := t[measurement][figure][whoOurs]
		theirs, both := t[measurement][theirFigure][who]
		if ok && both && theirs > 0 {
			out = append(out, bar{what: what, got: mine / theirs, want: want})
		}
	}
	limit := func(what, measurement, figure string, want float64) {
		if v, ok := t[measurement][figure][whoOurs]; ok {
			out = append(out, bar{what: what, got: v, want: want, most: true})
		}
	}
	for _, m := range []struct {
		name, what string
		times      float64
	}{{"pods5000", "5,000 nodes, pods", 4}, {"gangs5000", "5,000 nodes, gangs", 6}} {
		ratio(m.what+": rate beside bare bindings, both from their start", m.name, figRate, figRate, whoBare, 0.75)
		ratio(m.what+": rate from the start beside bare bindings from the first", m.name, figRate, figSteady, whoBare, 0.75)
		ratio(m.what+": rate beside stock", m.name, figRate, figRate, whoStock, m.times)
		limit(m.what+": first binding after the start, s", m.name, figFirst, stall)
		limit(m.what+": writes per pod", m.name, figWrites, 2.5)
	}
	for _, m := range []struct{ name, what string }{{"mixed5000", "5,000 nodes, a fleet that runs, queues, 40 shapes"}, {"mixed500", "500 nodes, the same"}} {
		ratio(m.what+": rate beside bare bindings, both from their start", m.name, figRate, figRate, whoBare, 0.75)
		limit(m.what+": first binding after the start, s", m.name, figFirst, stall)
		limit(m.what+": writes per pod", m.name, figWrites, 2.5)
		limit(m.what+": creation to binding: p99, ms", m.name, figP99, 50)
	}
	limit("500 nodes, pods: writes per pod", "pods500", figWrites, 2.5)
	limit("500 nodes, gang of 512 that waits: last binding after the start, s", "gang512", figLast, 1.5)
	limit("500 nodes, gang of 512 that comes: last binding after its last pod, s", "gang512", figOnline, 1.5)
	limit("full cluster, gang of 10 x 8 GPUs: told no, longest of 10, ms", "pods500", figNoMax, 100)
	limit("full cluster, gang of 10 x 8 GPUs: all its pods told no, longest of 10, ms", "pods500", figAllNoMax, 100)
	limit("idle, creation to binding: p99, ms", "latency", figP99, 50)
	limit("reclaim, 8 pods, 500 nodes full of borrowed work: median of 10, ms", "reclaim", figReclaim, 300)
	limit("reclaim, a gang of 8, the same: median of 10, ms", "reclaim", figReclaimGang, 300)
	limit("restart, 5,000 nodes and 40,000 pods, after an orderly end, s", "restart", figRestart, 10)
	limit("restart, 5,000 nodes and 40,000 pods, after kill -9, s", "restart", figKilled, 10)
	limit("5,000 nodes and 10,000 pods read for a diagnosis, longest of 5, s", "inspect", figGatherMax, 3)
	return out
}

// printBars says which promises were kept.
func printBars(w io.Writer, results []result) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(tw, "\nbar\tmeasured\twanted\t\n")
	for _, b := range bars(medians(results)) {
		sign, verdict := "at least", "missed"
		if b.most {
			sign = "at most"
		}
		if b.met() {
			verdict = "met"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s %s\t%s\n", b.what, number(b.got), sign, number(b.want), verdict)
	}
	tw.Flush()
}
