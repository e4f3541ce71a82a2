package doctor

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine"
)

// Item is one line of the checklist. Meaning is for people: docs/doctor.md has it.
type Item struct {
	Code    string
	Title   string // what is true of a cluster that is well, in a few words
	Owner   check.Owner
	Meaning string // why it matters, in a sentence
	// Needs are the resources without which nothing can be said ("nodes").
	Needs []string
	// Find looks. It returns what is wrong, and in a few words what was looked at.
	Find func(*Cluster) Result
}

// Result is what an item found.
type Result struct {
	Findings []Finding
	Looked   string // what was looked at, for where nothing is wrong: "8 nodes in 2 pools"
	Blind    string // what of it could not be looked at; "": all could
}

// Input is what a cluster is examined by.
type Input struct {
	Facts *facts.Facts
	// Samples are what exporters measured; nil where none were given.
	Samples []Sample
	// Report counts the GPUs of a resource with the engine; nil: it cannot be asked.
	Report func(resource string) engine.Report
}

// Examine goes through the checklist: the items of the codes, or all where there are none.
func Examine(in Input, codes ...string) Checkup {
	c := newCluster(in)
	out := Checkup{APIVersion: APIVersion, Kind: Kind, At: in.Facts.At, Kubernetes: in.Facts.Kubernetes, Severity: OK, Items: []ItemResult{}, Unseen: in.Facts.Unseen}
	for _, item := range Items {
		if len(codes) > 0 && !slices.Contains(codes, item.Code) {
			continue
		}
		r := c.run(item)
		out.Items = append(out.Items, r)
		if r.Severity.Rank() > out.Severity.Rank() {
			out.Severity = r.Severity
		}
	}
	slices.SortStableFunc(out.Items, func(a, b ItemResult) int { return cmp.Compare(b.Severity.Rank(), a.Severity.Rank()) })
	if in.Facts.Sees("nodes", "") {
		out.GPUs = c.capacities()
	}
	return out
}

func (c *Cluster) run(item *Item) ItemResult {
	out := ItemResult{Item: item.Code, Title: item.Title, Severity: OK}
	for _, need := range item.Needs {
		if !c.Sees(need, "") {
			out.Severity, out.Summary = Unknown, "not looked at: you may not list "+need+" in the whole cluster"
			return out
		}
	}
	r := item.Find(c)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Owner = cmp.Or(f.Owner, item.Owner)
		f.bound()
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity.Rank(), a.Severity.Rank()), cmp.Compare(a.Message, b.Message))
	})
	out.Findings = r.Findings
	out.Severity, out.Summary = summarize(r)
	return out
}

// summarize is the worst finding, and how many more there are. Where nothing is wrong it says what was looked at.
func summarize(r Result) (Severity, string) {
	if len(r.Findings) == 0 {
		if r.Blind != "" {
			return Unknown, r.Blind
		}
		return OK, cmp.Or(r.Looked, "nothing to look at")
	}
	worst := r.Findings[0]
	text := worst.Message
	if more := len(r.Findings) - 1; more > 0 {
		text += fmt.Sprintf("; and %s", wording.Number(more, "more finding"))
	}
	if r.Blind != "" && worst.Severity.Rank() < Unknown.Rank() {
		return Unknown, r.Blind
	}
	return worst.Severity, text
}

// bound keeps the finding to what a person reads.
func (f *Finding) bound() {
	f.Message, f.Next = clipped(f.Message), clipped(f.Next)
	if !harmless.MatchString(f.Command) {
		f.Command = "" // a name in it means something to a shell: no API server would have taken it
	}
	if f.Count == 0 {
		f.Count = len(f.Objects)
	}
	f.Objects = f.Objects[:min(len(f.Objects), MaxListed)]
	f.Evidence = f.Evidence[:min(len(f.Evidence), MaxListed)]
	for i := range f.Evidence {
		f.Evidence[i].Value = clipped(f.Evidence[i].Value)
	}
}

// harmless are commands that a shell takes word by word.
var harmless = regexp.MustCompile(`^[A-Za-z0-9 ./:=_-]*$`)

// clipped is the text in one line of bounded length: objects of others may have anything in them.
func clipped(s string) string {
	const most = 400 // characters
	s = strings.ToValidUTF8(wording.OneLine(s), "?")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
