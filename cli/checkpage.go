package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/diagnose/submit/rule"
)

// checkPage is a report for people.
type checkPage struct {
	columns int
	wide    bool
	kubectl string // what commands begin with
}

func (p *checkPage) whole(r *submit.Report) string {
	var b strings.Builder
	if len(r.Workloads) > 0 {
		t := table{columns: []column{{head: "WORKLOAD"}, {head: "NAMESPACE", spare: 2}, {head: "PODS"}, {head: "GPUS"}, {head: "VERDICT"}, {head: "WHY", text: true}}}
		for i := range r.Workloads {
			w := &r.Workloads[i]
			t.add(w.Target.String(), w.Target.Namespace, strconv.Itoa(w.Pods), gpusText(w), string(w.Verdict), w.Summary)
		}
		columns := p.columns
		if p.wide {
			columns = 0
		}
		_ = t.write(&b, columns) // a strings.Builder takes everything
	}
	if len(r.Workloads) == 0 {
		b.WriteString("No workload in the manifests.\n")
	}
	for i := range r.Workloads {
		b.WriteString(p.one(&r.Workloads[i], r.At))
	}
	for i := range r.Findings {
		fmt.Fprintf(&b, "\n%s", finding(&r.Findings[i]))
	}
	b.WriteString(quotaTable(r.Quotas))
	if len(r.Assumes) > 0 {
		b.WriteString("\nAssumed: " + strings.Join(r.Assumes, "; ") + ".\n")
	}
	if len(r.Unseen) > 0 {
		b.WriteString("\nNot seen: " + inShort(r.Unseen) + ".\n")
	}
	return b.String()
}

// gpusText is how many GPUs the workload asks for, and of how many a part, each with what of it: 2x0.5, 2x3000Mi.
func gpusText(w *submit.Workload) string {
	var out []string
	if w.GPUs > 0 || len(w.GPUParts) == 0 {
		out = append(out, strconv.FormatInt(w.GPUs, 10))
	}
	for _, p := range w.GPUParts {
		if p.MemoryMiB > 0 {
			out = append(out, fmt.Sprintf("%dx%dMi", p.GPUs, p.MemoryMiB))
		} else {
			out = append(out, fmt.Sprintf("%dx%g", p.GPUs, float64(p.Thousandths)/1000))
		}
	}
	return strings.Join(out, "+")
}

// one says more about a workload that does not start, or that has findings; "" where the table says all.
func (p *checkPage) one(w *submit.Workload, at time.Time) string {
	var b strings.Builder
	if w.Verdict == submit.Waits || w.Verdict == submit.Never {
		fmt.Fprintf(&b, "\n%s (%s:%d) %s: %s\n", w.Target, place(w.File), w.Line, map[submit.Verdict]string{submit.Waits: "waits", submit.Never: "can never start"}[w.Verdict], w.Summary)
		if w.Part != "" {
			fmt.Fprintf(&b, "  part:  %s\n", w.Part)
		}
		switch {
		case w.Verdict == submit.Never && w.Cause != "":
			fmt.Fprintf(&b, "  cause: %s, layer %s, for %s to change\n", w.Cause, w.Layer, w.Owner)
		case w.Cause != "":
			fmt.Fprintf(&b, "  cause: %s\n", w.Cause)
		}
	}
	if w.Verdict == submit.Waits {
		for i, h := range w.For {
			has := "holds"
			if h.Starts {
				has = "starts before it with"
			}
			fmt.Fprintf(&b, "  %-6s %s %s %d %s\n", firstOf(i, "for:"), h.Workload, has, h.Amount, h.Resource)
		}
		if w.ETA != nil {
			fmt.Fprintf(&b, "  until: %s\n", untilText(w.ETA, at))
		}
	}
	for i := range w.Fixes {
		b.WriteString(p.fix(&w.Fixes[i]))
	}
	for i := range w.Findings {
		if i == 0 && b.Len() == 0 {
			fmt.Fprintf(&b, "\n%s (%s:%d)\n", w.Target, place(w.File), w.Line)
		}
		b.WriteString(finding(&w.Findings[i]))
	}
	return b.String()
}

func firstOf(i int, word string) string {
	if i == 0 {
		return word
	}
	return ""
}

// place is the file for people.
func place(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

func untilText(e *facts.ETA, at time.Time) string {
	because := ""
	if e.Because != "" {
		because = ": " + e.Because
	}
	if e.Likely.IsZero() && strings.HasPrefix(e.Because, submit.NotEstimated) {
		return e.Because
	}
	if e.Likely.IsZero() {
		return "unknown" + because
	}
	text := e.Likely.UTC().Format("15:04:05 MST") + ", in " + e.Likely.Sub(at).Round(time.Second).String()
	if e.Likely.Sub(at) > 20*time.Hour {
		text = e.Likely.UTC().Format("2006-01-02 15:04 MST") + ", in " + e.Likely.Sub(at).Round(time.Minute).String()
	}
	return text + because
}

func (p *checkPage) fix(f *submit.Fix) string {
	if f.Side == "" {
		return "  advice: " + f.Edit + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  fix:   %s", f.Edit)
	if f.Outcome != "" {
		fmt.Fprintf(&b, "; then %s", strings.TrimPrefix(f.Outcome, "then "))
	}
	b.WriteString("\n")
	if f.Assumes != "" {
		fmt.Fprintf(&b, "         assumes that %s\n", f.Assumes)
	}
	if f.Patch != nil {
		patch, _ := json.Marshal(f.Patch)
		fmt.Fprintf(&b, "         patch of the file: %s\n", patch)
	}
	if f.Command != "" && p.kubectl != "" {
		for line := range strings.SplitSeq(addressed(f.Command, p.kubectl), "\n") {
			fmt.Fprintf(&b, "         %s\n", line)
		}
	}
	return b.String()
}

func finding(f *rule.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s %s: %s (%s:%d)\n", f.Code, f.Name, f.Message, place(f.File), f.Line)
	if f.Advice != "" {
		fmt.Fprintf(&b, "         %s\n", f.Advice)
	}
	if f.Patch != nil {
		patch, _ := json.Marshal(f.Patch)
		fmt.Fprintf(&b, "         patch of the file: %s\n", patch)
	}
	return b.String()
}

func quotaTable(quotas []submit.Quota) string {
	if len(quotas) == 0 {
		return ""
	}
	var b strings.Builder
	t := table{columns: []column{{head: "QUOTA"}, {head: "RESOURCE"}, {head: "HARD"}, {head: "USED"}, {head: "ASKED"}, {head: "LEFT"}}}
	for _, q := range quotas {
		of := q.Of.String()
		if q.Of.Namespace != "" {
			of = q.Of.In()
		}
		t.add(of, q.Resource, q.Hard, q.Used, q.Asked, q.Left)
	}
	_ = t.write(&b, 0)
	return "\n" + b.String()
}

// printGithub prints the report as commands of a GitHub workflow: annotations on the lines of the files.
func printGithub(w io.Writer, r *submit.Report) error {
	line := func(level, file string, at int, title, text string) error {
		_, err := fmt.Fprintf(w, "::%s file=%s,line=%d,title=%s::%s\n", level, property(file), at, property(title), data(text))
		return err
	}
	for i := range r.Workloads {
		wl := &r.Workloads[i]
		level := map[submit.Verdict]string{submit.Never: "error", submit.Waits: "warning"}[wl.Verdict]
		if level == "" {
			level = "notice"
		}
		if err := line(level, wl.File, wl.Line, wl.Target.String()+" "+string(wl.Verdict), verdictText(wl)); err != nil {
			return err
		}
	}
	for _, f := range allFindings(r) {
		if err := line("warning", f.File, f.Line, f.Code+" "+f.Title, f.Message); err != nil {
			return err
		}
	}
	return nil
}

// verdictText is a workload's summary with the first fix that would help.
func verdictText(w *submit.Workload) string {
	text := w.Summary
	if len(w.Fixes) > 0 {
		text += ". Fix: " + w.Fixes[0].Edit
	}
	return text
}

func allFindings(r *submit.Report) []rule.Finding {
	out := slices.Clone(r.Findings)
	for i := range r.Workloads {
		out = append(out, r.Workloads[i].Findings...)
	}
	return out
}

// data and property are escaped as GitHub's runner reads them back.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
