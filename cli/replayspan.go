package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/record"
)

// happening is one thing that a decision changed, as `berth replay --from -o json` prints it, one a line.
type happening struct {
	Now      time.Time `json:"now"`
	What     string    `json:"what"` // starts, waits, leaves: no longer waits, and did not start
	Workload string    `json:"workload"`

	Kind       engine.StartKind   `json:"kind,omitempty"` // of a start
	Placements []engine.Placement `json:"placements,omitempty"`

	Verdict  why.Verdict `json:"verdict,omitempty"` // of a wait
	Cause    why.Cause   `json:"cause,omitempty"`
	Sentence string      `json:"sentence,omitempty"`
}

func (h happening) String() string {
	switch h.What {
	case "starts":
		nodes := map[string]bool{}
		for _, p := range h.Placements {
			nodes[p.Node] = true
		}
		return fmt.Sprintf("%s  starts  %s (%s): %s on %s", stamp(h.Now), h.Workload, h.Kind, plural(len(h.Placements), "pod"), plural(len(nodes), "node"))
	case "waits":
		return fmt.Sprintf("%s  waits   %s (%s, %s): %s", stamp(h.Now), h.Workload, h.Verdict, h.Cause, h.Sentence)
	}
	return fmt.Sprintf("%s  leaves  %s", stamp(h.Now), h.Workload)
}

// teller follows decisions and tells what each of them changed.
type teller struct {
	only  string               // a workload; "": all
	waits map[string]why.Cause // by workload
}

func (t *teller) tell(c record.Cycle) (out []happening) {
	left := t.waits
	t.waits = make(map[string]why.Cause, len(c.Plan.Waiting))
	for i := range c.Plan.Starts {
		s := &c.Plan.Starts[i]
		delete(left, s.Gang)
		out = append(out, happening{Now: c.Now, What: "starts", Workload: s.Gang, Kind: s.Kind, Placements: s.Placements})
	}
	for i := range c.Plan.Waiting {
		w := &c.Plan.Waiting[i]
		if before, ok := left[w.Gang]; !ok || before != w.Cause {
			out = append(out, happening{
				Now: c.Now, What: "waits", Workload: w.Gang, Verdict: w.Verdict, Cause: w.Cause, Sentence: w.Gates[0].Sentence(c.Plan.Certificates),
			})
		}
		delete(left, w.Gang)
		t.waits[w.Gang] = w.Cause
	}
	for _, gang := range slices.Sorted(maps.Keys(left)) {
		out = append(out, happening{Now: c.Now, What: "leaves", Workload: gang})
	}
	return t.wanted(out)
}

func (t *teller) wanted(all []happening) (out []happening) {
	for _, h := range all {
		if t.only == "" || means(t.only, h.Workload) {
			out = append(out, h)
		}
	}
	return out
}

// showSpan prints what happened. What waits at its beginning comes first.
func (o *replayOptions) showSpan(log *record.Log, from, to time.Time) error {
	if to.Before(log.From()) {
		return &record.OutsideError{From: log.From()}
	}
	t := &teller{only: o.workload}
	for c, err := range log.Cycles(from, to) {
		if err != nil {
			return err
		}
		for _, h := range t.tell(c) {
			if err := o.printHappening(h); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *replayOptions) printHappening(h happening) error {
	if o.output == "json" {
		return o.printJSON(h)
	}
	_, err := fmt.Fprintln(o.streams.Out, h)
	return err
}
