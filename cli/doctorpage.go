package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// doctorPage writes a checkup for people: a line per item, the GPUs, and then the findings that somebody has to act on.
type doctorPage struct {
	columns         int // 0: as many as it takes
	colour, verbose bool
}

// fewEvidence bounds the lines of evidence of a finding; -v, wide and JSON have all that were kept.
const fewEvidence = 3

func (p doctorPage) text(c *doctor.Checkup) string {
	var b strings.Builder
	p.items(&b, c)
	if slices.ContainsFunc(c.Items, func(item doctor.ItemResult) bool { return item.Item == "utilisation" }) {
		p.gpus(&b, c)
	}
	for _, item := range c.Items {
		p.findings(&b, &item)
	}
	if len(c.Unseen) > 0 {
		fmt.Fprintf(&b, "\nNot seen: %s.\n", inShort(c.Unseen))
	}
	fmt.Fprintf(&b, "\n%s\n", p.conclusion(c))
	return b.String()
}

func (p doctorPage) items(b *strings.Builder, c *doctor.Checkup) {
	t := table{columns: []column{{head: "SEVERITY"}, {head: "ITEM"}, {head: "WHAT WAS FOUND", text: true}}}
	for _, item := range c.Items {
		t.add(string(item.Severity), item.Item, item.Summary)
	}
	var lines strings.Builder
	t.write(&lines, p.columns)
	for line := range strings.Lines(lines.String()) {
		if p.colour && strings.HasPrefix(line, string(doctor.Fail)+" ") {
			line = red + string(doctor.Fail) + unstyled + strings.TrimPrefix(line, string(doctor.Fail))
		}
		b.WriteString(line)
	}
}

// gpus shows how full the cluster is, and what could start.
func (p doctorPage) gpus(b *strings.Builder, c *doctor.Checkup) {
	use := table{columns: []column{{head: "RESOURCE"}, {head: "MODEL"}, {head: "NODES"}, {head: "FREE NODES", spare: 1}, {head: "GPUS"}, {head: "IN USE"}, {head: "UTILISATION"}, {head: "FRAGMENTATION"}}}
	row := func(resource, model string, u doctor.Usage) {
		use.add(resource, model, fmt.Sprint(u.Nodes), fmt.Sprint(u.FreeNodes), fmt.Sprint(u.GPUs), fmt.Sprint(u.Allocated), percentOf(u.Utilisation), percentOf(u.Fragmentation))
	}
	most := table{columns: []column{{head: "LARGEST JOB NOW"}, {head: "MODEL"}, {head: "WITHIN"}, {head: "WHERE"}}}
	for _, k := range c.GPUs {
		if len(k.Models) != 1 {
			row(k.Resource, "all", k.All)
		}
		for _, u := range k.Models {
			row(k.Resource, dash(u.Model), u)
		}
		for _, l := range k.Largest {
			level := l.Level
			if level == "" {
				level = "cluster"
			}
			most.add(fmt.Sprintf("%d %s", l.GPUs, k.Resource), dash(l.Model), level, dash(l.Domain))
		}
	}
	for _, t := range []table{use, most} {
		if len(t.rows) > 0 {
			b.WriteByte('\n')
			t.write(b, p.columns)
		}
	}
}

func percentOf(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

// findings are those of an item that somebody has to act on; with verbose all of them, and what the item is about.
func (p doctorPage) findings(b *strings.Builder, item *doctor.ItemResult) {
	var shown []doctor.Finding
	for _, f := range item.Findings {
		if p.verbose || f.Severity.Rank() >= doctor.Warn.Rank() {
			shown = append(shown, f)
		}
	}
	if len(shown) == 0 && !p.verbose {
		return
	}
	fmt.Fprintf(b, "\n%s\n", item.Item)
	if i := slices.IndexFunc(doctor.Items, func(d *doctor.Item) bool { return d.Code == item.Item }); i >= 0 && p.verbose {
		p.line(b, "  ", "Expected: "+item.Title+". "+doctor.Items[i].Meaning)
	}
	if len(shown) == 0 {
		p.line(b, "  ", string(item.Severity)+": "+item.Summary)
	}
	for _, f := range shown {
		p.line(b, "  ", fmt.Sprintf("%s: %s (owner: %s)", f.Severity, f.Message, f.Owner))
		evidence := f.Evidence
		if !p.verbose {
			evidence = evidence[:min(len(evidence), fewEvidence)]
		}
		for _, e := range evidence {
			value := e.Value
			if value == "" {
				value = "absent"
			}
			p.line(b, "    - ", e.Object+" "+e.Field+": "+value)
		}
		if more := len(f.Evidence) - len(evidence); more > 0 {
			p.line(b, "    - ", fmt.Sprintf("and %d more (-v)", more))
		}
		if f.Next != "" {
			p.line(b, "    ", "Next: "+f.Next+".")
		}
		if f.Command != "" {
			p.line(b, "    ", f.Command)
		}
	}
}

// line writes a text in lines of the page's width, each of them indented.
func (p doctorPage) line(b *strings.Builder, indent, text string) {
	width := p.columns
	if width == 0 {
		width = 120
	}
	rest := strings.Repeat(" ", len(indent))
	at := indent
	for _, word := range strings.Fields(cell(text)) {
		if len(at) > len(indent) && len([]rune(at))+len([]rune(word)) > width {
			b.WriteString(strings.TrimRight(at, " ") + "\n")
			at = rest
		}
		at += word + " "
	}
	b.WriteString(strings.TrimRight(at, " ") + "\n")
}

// conclusion is the answer in a sentence.
func (p doctorPage) conclusion(c *doctor.Checkup) string {
	count := make(map[doctor.Severity]int)
	for _, item := range c.Items {
		count[item.Severity]++
	}
	var rest []string
	for _, s := range []doctor.Severity{doctor.Fail, doctor.Warn, doctor.Unknown, doctor.Note} {
		if count[s] > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	text := "Fit for GPU work"
	switch {
	case count[doctor.Fail] > 0:
		text = "Not fit for GPU work"
	case count[doctor.Unknown] > 0:
		text = "No failure was seen, and not everything could be looked at"
	case len(rest) == 0:
		return fmt.Sprintf("%s: %s looked at, all ok.", text, itemsInWords(len(c.Items)))
	}
	return fmt.Sprintf("%s: of %s %s, %d ok.", text, itemsInWords(len(c.Items)), strings.Join(rest, ", "), count[doctor.OK])
}

func itemsInWords(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}
