package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

// queueTable says how queues are shown.
type queueTable struct {
	wide    bool
	columns int // 0: as many as it takes

	shares bool // they are known
	notes  bool // some queue has something to say
}

// printQueues writes the tree: each queue below its parent, where that is among them.
func printQueues(out io.Writer, items []answer.Queue, t queueTable) error {
	for i := range items {
		t.shares = t.shares || len(items[i].Share) > 0
		t.notes = t.notes || noteOf(&items[i]) != ""
	}
	lines := table{columns: t.heads()}
	for _, q := range inTree(items) {
		lines.add(t.row(q.Queue, q.depth)...)
	}
	return lines.write(out, t.columns)
}

func (t queueTable) heads() (heads []column) {
	if t.wide {
		for _, head := range []string{"NAME", "QUOTA", "LIMIT", "WEIGHT", "USED", "BORROWED", "LENT", "RUNNING", "WAITING", "WANTED", "SHARE", "GPU-HOURS", "BUDGET"} {
			heads = append(heads, column{head: head})
		}
	} else {
		heads = []column{
			{head: "NAME"}, {head: "QUOTA"}, {head: "USED"}, {head: "BORROWED", spare: 1}, {head: "LENT", spare: 2}, {head: "WAITING"},
			{head: "SHARE", spare: 3}, {head: "GPU-HOURS", spare: 4}, {head: "BUDGET", spare: 5},
		}
	}
	if t.notes {
		heads = append(heads, column{head: "NOTE", text: true})
	}
	return heads
}

func (t queueTable) row(q *answer.Queue, depth int) []string {
	share := "-"
	if t.shares && !q.Missing && q.Problem == "" {
		share = t.amounts(q.Share, "0")
	}
	row := []string{strings.Repeat("  ", depth) + q.Name, t.amounts(q.Quota, "-")}
	if t.wide {
		row = append(row, t.amounts(q.Limits, "-"), fmt.Sprint(weightOf(q)))
	}
	row = append(row, t.amounts(q.Used, "0"), t.amounts(q.Borrowed, "-"), t.amounts(q.Lent, "-"))
	if t.wide {
		row = append(row, fmt.Sprint(q.Running.Workloads), fmt.Sprint(q.Waiting.Workloads), t.amounts(q.Wanted, "-"))
	} else {
		row = append(row, fmt.Sprint(q.Waiting.Workloads))
	}
	row = append(row, share, hours(q.GPUSeconds), t.budget(q.Budgets))
	if t.notes {
		row = append(row, noteOf(q))
	}
	return row
}

// amounts is GPUs alone, or all in a wide table.
func (t queueTable) amounts(all []why.Amount, none string) string {
	if t.wide {
		if len(all) == 0 {
			return none
		}
		return strings.Join(why.Amounts(all), ", ")
	}
	if n, ok := gpusIn(all); ok {
		return fmt.Sprint(n)
	}
	return none
}

func gpusIn(all []why.Amount) (int64, bool) {
	i := slices.IndexFunc(all, func(a why.Amount) bool { return a.Resource == string(gpuResource) })
	if i < 0 {
		return 0, false
	}
	return all[i].Value, true
}

// budget is like "12/100 per 7d": hours.
func (t queueTable) budget(all []answer.Budget) string {
	var words []string
	for _, b := range all {
		word := hours(wholeSeconds(b.Resource, b.Spent)) + "/" + hours(wholeSeconds(b.Resource, b.Seconds)) + " per " + periodOf(b)
		if b.Resource != string(gpuResource) {
			word += " of " + b.Resource
		}
		if t.wide || b.Resource == string(gpuResource) {
			words = append(words, word)
		}
	}
	return dash(strings.Join(words, ", "))
}

func periodOf(b answer.Budget) string {
	return duration.HumanDuration(time.Duration(b.PeriodSeconds) * time.Second)
}

// wholeSeconds is of amounts in the engine's units: those of one core, of one GiB, else of one.
func wholeSeconds(resource string, n int64) int64 {
	switch resource {
	case engine.CPU:
		return n / 1000
	case engine.Memory:
		return n >> 30
	}
	return n
}

// hours writes seconds as hours, with a tenth where that says something.
func hours(seconds int64) string {
	if tenths := (seconds + 180) / 360; tenths%10 != 0 && tenths < 1000 {
		return fmt.Sprintf("%d.%d", tenths/10, tenths%10)
	}
	return fmt.Sprint((seconds + 1800) / 3600)
}

// noteOf says what is wrong with the queue.
func noteOf(q *answer.Queue) string {
	switch {
	case q.Missing:
		return "does not exist"
	case q.Problem != "":
		return "has no effect: " + q.Problem
	}
	return strings.Join(q.Warnings, "; ")
}

func weightOf(q *answer.Queue) int64 {
	if q.Weight == 0 && !q.Missing {
		return 1
	}
	return q.Weight
}

// placed is a queue and how far it is from the top of what is shown.
type placed struct {
	*answer.Queue
	depth int
}

// inTree puts each queue after its parent, siblings in the order in which they are. One whose parent is not there, or
// that is above itself, is at the top.
func inTree(items []answer.Queue) []placed {
	at := make(map[string]int, len(items))
	for i := range items {
		at[items[i].Name] = i
	}
	below := make(map[string][]int)
	for i := range items {
		if q := &items[i]; q.Problem == "" {
			if _, ok := at[q.Parent]; ok {
				below[q.Parent] = append(below[q.Parent], i)
			}
		}
	}
	out, seen := make([]placed, 0, len(items)), make([]bool, len(items))
	var put func(i, depth int)
	put = func(i, depth int) {
		if seen[i] {
			return
		}
		seen[i] = true
		out = append(out, placed{&items[i], depth})
		for _, child := range below[items[i].Name] {
			put(child, depth+1)
		}
	}
	for i := range items {
		if _, ok := at[items[i].Parent]; !ok || items[i].Problem != "" {
			put(i, 0)
		}
	}
	for i := range items { // those in a circle
		put(i, 0)
	}
	return out
}

// subtree is the queue and those below it.
func subtree(items []answer.Queue, name string) []answer.Queue {
	var out []answer.Queue
	depth := -1
	for _, q := range inTree(items) {
		switch {
		case q.Name == name:
			depth = q.depth
		case depth < 0:
			continue
		case q.depth <= depth:
			return out
		}
		out = append(out, *q.Queue)
	}
	return out
}
