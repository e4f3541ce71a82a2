package cluster

import (
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// checked is the workloads that others have to agree to before they start (dialect.Terms.Unready): Kueue's admission checks. Such a
// workload is planned like any other. When a plan starts it, its quota and its places are kept for it instead (engine.Hold), and it is
// held until all have agreed; then the next plan starts it there (ADR 133).
//
//	in line --start--> reserved --all agree--> released --start--> started
//	   ^                  |                       |
//	   '--one declines, or the places are lost----'
//
// Edits of the engine's memory have no version here: the caller that applies them numbers them. Nothing is written down by the feed: after a
// restart the project's object says which workloads had quota, and these have it again before anybody else has a turn (Recalling).
type checked struct {
	out      *output
	reserved map[string]*reserved // by workload
	recall   map[string]bool      // workloads that had quota before the restart: while there are any, all others are held
	until    time.Time            // when those that have found no place lose it; zero: they have not been looked for
}

// reserved is what is kept for a workload.
type reserved struct {
	nodes    map[string]engine.Resources // what its pods request, by node; of those that have started, none
	on       []string                    // the nodes, as they were found
	released bool                        // all have agreed
	started  bool                        // it is on its way to its nodes
}

// reserveFor is how long quota and places are kept at most.
const reserveFor = 366 * 24 * time.Hour

// recallFor is how long workloads that had quota before the restart may look for places while no other starts: where the whole cluster
// restarted, nodes and their device plugins report a few seconds after the scheduler.
const recallFor = 10 * time.Second

func newChecked(out *output) *checked {
	return &checked{out: out, reserved: make(map[string]*reserved)}
}

// kept says whether the workload has its quota and may not start yet.
func (c *checked) kept(workload string) bool {
	r := c.reserved[workload]
	return r != nil && !r.released
}

// holds says whether the workload may not start: it is kept, or has no turn yet.
func (c *checked) holds(workload string) bool {
	return c.kept(workload) || c.recall != nil && !c.recall[workload]
}

// Recalling says whether there are workloads that had quota and places before the restart, wait for checks, and have not found places
// yet. All others are held then, so that a plan gives what these had to no other. Recall ends that, recallFor after the first call at
// the latest.
func (f *Feed) Recalling() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.checked
	if !c.until.IsZero() {
		return c.recall != nil
	}
	c.until = f.timers.now().Add(recallFor)
	had := make(map[string]bool)
	for _, m := range f.members.pods { //archtest:any-order it fills a set
		if t := m.foreign; t != nil && m.waiting() && t.Reserved && t.Unready != "" && t.Awaits == "" && c.reserved[m.workload] == nil {
			had[m.workload] = true
		}
	}
	if len(had) == 0 {
		return false
	}
	c.recall = had
	f.heldOthers(had)
	return true
}

// Recall keeps for the workloads what the plan would start them with, and says whether some are still to find places. The plan was made
// for that alone, and its changes are not applied.
func (f *Feed) Recall(plan *engine.Plan) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.checked
	for i := range plan.Starts {
		if s := &plan.Starts[i]; c.recall[s.Gang] && s.Kind == engine.Begin && f.unready(s.Gang) != "" {
			f.keep(s)
		}
	}
	left := 0
	for workload := range c.recall { //archtest:any-order it counts them
		if c.reserved[workload] == nil && f.unready(workload) != "" {
			left++
		}
	}
	if left > 0 && f.timers.now().Before(c.until) {
		return true
	}
	had := c.recall
	c.recall = nil
	f.heldOthers(had)
	return false
}

// heldOthers gives the engine all workloads that wait but for those, which are held or are not any more.
func (f *Feed) heldOthers(but map[string]bool) {
	waiting := make(map[string]bool)
	for _, m := range f.members.pods { //archtest:any-order it fills a set
		if m.waiting() && !but[m.workload] {
			waiting[m.workload] = true
		}
	}
	for _, workload := range sortedNames(waiting) {
		f.heldAnew(workload)
	}
}

// Checked returns the plan's starts but for those of workloads that others have yet to agree to: what these were given is kept for
// them. The cycle calls it once the plan's changes are applied.
func (f *Feed) Checked(plan *engine.Plan) []engine.Start {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.checked
	if len(c.reserved) == 0 && !f.foreign.used() {
		return plan.Starts
	}
	lost := make(map[string]bool)
	for i := range plan.Changes {
		if gone := plan.Changes[i].Gone; gone != nil && gone.Kind == engine.KindHold {
			at := max(strings.LastIndexByte(gone.Key, '@'), 0)
			if r := c.reserved[gone.Key[:at]]; r != nil {
				delete(r.nodes, gone.Key[at+1:]) // the engine has forgotten it
				lost[gone.Key[:at]] = true
			}
		}
	}
	var out []engine.Start
	for i := range plan.Starts {
		s := &plan.Starts[i]
		delete(lost, s.Gang)
		if s.Kind == engine.Begin && f.unready(s.Gang) != "" {
			f.reserve(s)
			continue
		}
		if r := c.reserved[s.Gang]; r != nil {
			f.giveBack(s.Gang, r)
			r.started = true
		}
		out = append(out, *s)
	}
	for i := range plan.Waiting {
		if r := c.reserved[plan.Waiting[i].Gang]; r != nil && r.started { // it did not get there, and its place is taken
			lost[plan.Waiting[i].Gang] = true
		}
	}
	for _, workload := range sortedNames(lost) { // to a workload that could evict it
		f.unreserve(workload)
	}
	return out
}

// unready is what the workload waits for once it has quota and places; "": nothing, or it does not come that far.
func (f *Feed) unready(workload string) string {
	for _, m := range f.members.of(workload) {
		if t := m.foreign; t != nil && t.Awaits == "" && t.Unready != "" {
			return t.Unready
		}
	}
	return ""
}

// Unready is what a workload that has quota and places waits for; "": it has none, or may start.
func (f *Feed) Unready(workload string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.checked.kept(workload) {
		return ""
	}
	return f.unready(workload)
}

// reserve keeps for the workload what the start gives it, which the engine assumes that it has.
func (f *Feed) reserve(s *engine.Start) {
	f.keep(s)
	for _, p := range s.Placements {
		f.out.put(engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: p.Pod}})
	}
}

// keep has the places and the quota of the start kept for its workload.
func (f *Feed) keep(s *engine.Start) {
	c := f.checked
	f.unreserve(s.Gang)
	r := &reserved{nodes: make(map[string]engine.Resources)}
	for _, p := range s.Placements {
		if m := f.members.pods[p.Pod]; m != nil {
			r.nodes[p.Node] = r.nodes[p.Node].Plus(m.takes)
		}
	}
	r.on = sortedNames(r.nodes)
	c.reserved[s.Gang] = r
	for _, node := range r.on {
		c.out.put(engine.Change{Hold: &engine.Hold{Gang: s.Gang, Node: node, Requests: r.nodes[node], Until: f.timers.now().Add(reserveFor)}})
	}
	f.heldAnew(s.Gang)
}

// unreserve gives back what is kept for the workload.
func (f *Feed) unreserve(workload string) {
	c := f.checked
	r := c.reserved[workload]
	if r == nil {
		return
	}
	delete(c.reserved, workload)
	f.giveBack(workload, r)
	f.heldAnew(workload)
}

// giveBack ends what is kept on nodes.
func (f *Feed) giveBack(workload string, r *reserved) {
	for _, node := range sortedNames(r.nodes) {
		f.out.put(engine.Change{Gone: &engine.Ref{Kind: engine.KindHold, Key: workload + "@" + node}})
	}
	clear(r.nodes)
}

// heldAnew gives the engine the workload, which is held or is not any more.
func (f *Feed) heldAnew(workload string) {
	f.gangs.describeAgain(workload)
	if m := f.members.pods[workload]; m != nil && !m.inGang() && m.given {
		f.giveAgain([]*member{m})
	}
	f.tenancy.UsageChanged()
	f.out.wake()
}

// release looks which workloads may start in the places that are kept for them, and which lose these: somebody declined, or none of
// their pods waits any more.
func (f *Feed) release() {
	for _, workload := range sortedNames(f.checked.reserved) {
		r := f.checked.reserved[workload]
		waits, declined, ready := false, false, true
		for _, m := range f.members.of(workload) {
			waits = waits || m.waiting()
			if t := m.foreign; t != nil {
				declined, ready = declined || t.Awaits != "", ready && t.Unready == ""
			}
		}
		switch {
		case !waits || declined:
			f.unreserve(workload)
		case ready != r.released:
			r.released = ready
			f.heldAnew(workload)
		}
	}
}
