package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// whyPage writes diagnoses for people.
type whyPage struct {
	columns           int // 0: as many as it takes
	colour, wide, all bool
	now               time.Time
}

// rungs are the layers as people call them.
var rungs = []struct {
	layer check.Layer
	name  string
}{
	{check.L1, "L1 capacity"}, {check.L2, "L2 provisioning"}, {check.L3, "L3 scheduling"}, {check.L4, "L4 workload"},
}

// mostEvidence bounds the lines of evidence of a blocker; -o wide and JSON have all.
const mostEvidence = 3

// one writes a diagnosis: what it is, the ladder with the broken rung, what shows it, and what would help. Work with
// which nothing is wrong gets one sentence.
func (p whyPage) one(d *diagnose.Diagnosis) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in namespace %s: %s, %s\n\n", d.Target, d.Target.Namespace, d.State, p.age(d))
	if blocks(d) || len(d.Blockers) > 0 {
		p.ladder(&b, d)
		b.WriteByte('\n')
	}
	p.para(&b, "Why", sentence(d.Summary))
	p.blockers(&b, d)
	p.fixes(&b, d)
	p.when(&b, d)
	p.basis(&b, d)
	p.history(&b, d)
	if len(d.Unheeded) > 0 {
		b.WriteByte('\n')
		p.para(&b, "No effect", strings.Join(d.Unheeded, "; ")+".")
	}
	p.unseen(&b, d.Unseen)
	p.rights(&b, d.Rights)
	return b.String()
}

// rights writes what of the things that could not be read would tell more, one in a line.
func (p whyPage) rights(b *strings.Builder, rights []diagnose.Right) {
	head := "Would tell"
	for _, r := range rights {
		p.para(b, head, "- "+r.String())
		head = ""
	}
}

func (p whyPage) age(d *diagnose.Diagnosis) string {
	if d.Created.IsZero() {
		return "age not known"
	}
	return ageOf(d.Created, p.now) + " old"
}

// ladder shows how far the work has come. Nothing is claimed of a layer that could not be looked at.
func (p whyPage) ladder(b *strings.Builder, d *diagnose.Diagnosis) {
	broken := -1
	for i, r := range rungs {
		if r.layer == d.Layer {
			broken = i
		}
	}
	for i, r := range rungs {
		mark, word := "-", p.noted(d, r.layer)
		switch {
		case i == broken:
			mark, word = "x", fmt.Sprintf("%s (owner: %s)", d.Cause, d.Owner)
		case broken >= 0 && i > broken && word == "":
			mark, word = " ", "not reached"
		case word != "":
		case hides(d, r.layer):
			mark, word = "?", "not seen"
		default:
			word = "nothing found"
		}
		line := fmt.Sprintf("  %s %-16s  %s", mark, r.name, word)
		if p.colour && i == broken {
			line = red + line + unstyled
		}
		b.WriteString(line + "\n")
	}
}

// shows is what has to be read before anybody can say that a layer is in order.
var shows = map[check.Layer]string{check.L1: "nodes", check.L2: "nodes", check.L3: "nodes", check.L4: "pods/log"}

// hides says whether what shows the layer could not be read.
func hides(d *diagnose.Diagnosis, l check.Layer) bool {
	return slices.ContainsFunc(d.Unseen, func(u facts.Unseen) bool { return u.Resource == shows[l] })
}

// noted is what was noticed of a layer that does not hold the work up; "" for nothing.
func (p whyPage) noted(d *diagnose.Diagnosis, l check.Layer) string {
	var causes []string
	for _, k := range d.Blockers {
		if k.Layer == l && !slices.Contains(causes, string(k.Cause)) {
			causes = append(causes, string(k.Cause))
		}
	}
	if len(causes) == 0 {
		return ""
	}
	return "noticed: " + strings.Join(causes, ", ")
}

// blockers writes the evidence of the first, and the others in a line each.
func (p whyPage) blockers(b *strings.Builder, d *diagnose.Diagnosis) {
	for i, k := range d.Blockers {
		if i == 0 {
			p.evidence(b, k)
			continue
		}
		if i == 1 {
			b.WriteByte('\n')
		}
		head := "Noticed"
		if k.Binding {
			head = "Also"
		}
		p.para(b, head, fmt.Sprintf("%s: %s", k.Cause, k.Message))
		if p.wide {
			p.evidence(b, k)
		}
	}
}

func (p whyPage) evidence(b *strings.Builder, k diagnose.Blocker) {
	for i, e := range k.Evidence {
		if i == mostEvidence && !p.wide {
			p.para(b, "", fmt.Sprintf("- and %d more; -o wide has all", len(k.Evidence)-i))
			return
		}
		p.para(b, "", fmt.Sprintf("- %s %s: %s", e.Object, e.Field, e.Value))
	}
}

// fixes writes what was tried and helps, each with the command that does it; the command is never broken, as it is
// there to be copied.
func (p whyPage) fixes(b *strings.Builder, d *diagnose.Diagnosis) {
	if len(d.Fixes) == 0 && blocks(d) {
		b.WriteByte('\n')
		p.para(b, "Fix", "No verified fix.")
		if d.Advice != "" {
			p.para(b, "", "What usually helps: "+d.Advice)
		}
	}
	for i, f := range d.Fixes {
		head := "Fix"
		if i > 0 {
			head = "Or"
		}
		b.WriteByte('\n')
		p.para(b, head, sentence(f.Edit))
		p.para(b, "", "Tried, and "+f.Outcome+".")
		if f.Assumes != "" {
			p.para(b, "", "Assumes that "+f.Assumes+".")
		}
		for _, line := range strings.Split(f.Command, "\n") {
			if line != "" {
				fmt.Fprintf(b, "%*s%s\n", margin, "", line)
			}
		}
	}
}

// basis says that the scheduler's own word is missing.
func (p whyPage) basis(b *strings.Builder, d *diagnose.Diagnosis) {
	if d.Scheduler == nil || d.Scheduler.Answers {
		return
	}
	b.WriteByte('\n')
	p.para(b, "Scheduler", fmt.Sprintf("%s could not be asked: %s. This is the answer of a model of it with the default configuration.", d.Scheduler.Name, strings.TrimSuffix(d.Scheduler.Why, ".")))
}

// when says from when on the work may start by itself.
func (p whyPage) when(b *strings.Builder, d *diagnose.Diagnosis) {
	if d.ETA == nil {
		return
	}
	b.WriteByte('\n')
	at := d.ETA.Earliest
	if at.IsZero() {
		at = d.ETA.Likely
	}
	if at.IsZero() {
		p.para(b, "When", sentence(d.ETA.Because))
		return
	}
	text := "From " + clock(at, p.now)
	if d.ETA.Likely.After(at) {
		text += ", likely at " + clock(d.ETA.Likely, p.now)
	}
	p.para(b, "When", text+": "+d.ETA.Because+".")
}

// history writes what happened to the work, where that is more than that it waits as it has from its beginning.
func (p whyPage) history(b *strings.Builder, d *diagnose.Diagnosis) {
	eventful := len(d.History) > 1 && blocks(d)
	for _, m := range d.History {
		eventful = eventful || m.What == "refused" || m.What == "evicted" || m.Times > 1
	}
	if !eventful {
		return
	}
	b.WriteByte('\n')
	for i, m := range d.History {
		head := ""
		if i == 0 {
			head = "History"
		}
		text := fmt.Sprintf("%s: %s: %s", clock(m.Last, p.now), m.What, m.Text)
		if m.Times > 1 {
			text += fmt.Sprintf(" (%d times since %s)", m.Times, clock(m.At, p.now))
		}
		p.para(b, head, text)
	}
}

// clock is a time of today, or of another day with its date.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.YearDay() == now.YearDay() && at.Year() == now.Year() {
		return at.Format("15:04:05 UTC")
	}
	return at.Format("2006-01-02 15:04:05 UTC")
}

// unseen writes what could not be read: short names in one paragraph, or all in full.
func (p whyPage) unseen(b *strings.Builder, unseen []facts.Unseen) {
	if len(unseen) == 0 {
		return
	}
	b.WriteByte('\n')
	if !p.wide {
		p.para(b, "Not seen", inShort(unseen)+".")
		return
	}
	for i, u := range unseen {
		head := ""
		if i == 0 {
			head = "Not seen"
		}
		p.para(b, head, u.String())
	}
}

// inShort gathers what could not be read by where and why: "nodes, secrets (forbidden); outside namespace a: pods
// (forbidden)".
func inShort(unseen []facts.Unseen) string {
	type kind struct{ where, reason string }
	var order []kind
	names := make(map[kind][]string)
	for _, u := range unseen {
		key := kind{u.Where(), u.Reason}
		if names[key] == nil {
			order = append(order, key)
		}
		if resource, _, _ := strings.Cut(u.Resource, "."); !slices.Contains(names[key], resource) {
			names[key] = append(names[key], resource)
		}
	}
	parts := make([]string, len(order))
	for i, key := range order {
		parts[i] = fmt.Sprintf("%s (%s)", strings.Join(names[key], ", "), key.reason)
		if key.where != "" {
			parts[i] = key.where + ": " + parts[i]
		}
	}
	return strings.Join(parts, "; ")
}

// margin is the columns before the text, where its headings are.
const margin = 11

// para writes a paragraph with a word in the margin, broken at the screen's edge.
func (p whyPage) para(b *strings.Builder, head, text string) {
	room := 88
	if p.columns > margin+20 {
		room = min(room, p.columns-margin)
	}
	for i, line := range fold(text, room) {
		if i > 0 {
			head = ""
		}
		fmt.Fprintf(b, "%-*s%s\n", margin, head, line)
	}
}

// fold breaks text between words into lines of at most so many columns; longer words stay whole. What begins with a
// dash goes on behind it.
func fold(text string, columns int) []string {
	var lines []string
	line, indent := "", ""
	if strings.HasPrefix(text, "- ") {
		indent = "  "
	}
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// sentence gives a fragment its capital and its full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// table writes a line for each.
func (p whyPage) table(list diagnose.DiagnosisList) string {
	lines := table{columns: []column{
		{head: "NAME"}, {head: "STATE", spare: 2}, {head: "LAYER", spare: 3}, {head: "CAUSE"}, {head: "OWNER", spare: 1}, {head: "AGE", spare: 4},
		{head: "ACTION", text: true},
	}}
	if p.all {
		lines.columns = append([]column{{head: "NAMESPACE"}}, lines.columns...)
	}
	for i := range list.Items {
		d := &list.Items[i]
		row := []string{d.Target.String(), string(d.State), string(d.Layer), string(d.Cause), string(d.Owner), ageOf(d.Created, p.now), action(d)}
		if p.all {
			row = append([]string{d.Target.Namespace}, row...)
		}
		lines.add(row...)
	}
	var b strings.Builder
	_ = lines.write(&b, p.columns) // a builder takes everything
	p.unseen(&b, list.Unseen)
	return b.String()
}

// action is what to do next, in a few words.
func action(d *diagnose.Diagnosis) string {
	switch {
	case len(d.Fixes) > 0:
		return d.Fixes[0].Edit
	case !blocks(d):
		return "none needed"
	case d.Advice != "":
		return "no verified fix; " + strings.ToLower(d.Advice[:1]) + strings.TrimSuffix(d.Advice[1:], ".")
	}
	return "no verified fix"
}
