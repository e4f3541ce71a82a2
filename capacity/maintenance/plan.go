package maintenance

import (
	"slices"
	"strings"
	"time"
)

// Window is when nodes may be drained.
type Window struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Work is a workload that runs on some of the nodes.
type Work struct {
	Key     string
	Nodes   []string // of those that are drained
	GPUs    int64    // of all its pods
	Started time.Time
	Ends    time.Time // when it is over by itself; zero: not known
	Learned bool      // Ends is a guess, from how long work like it took
	// Checkpoint is how often it saves its state, from its start on; 0: never. Restart is what a new start costs.
	Checkpoint, Restart time.Duration
}

// Plan is when each node is drained, in that order.
type Plan struct {
	Window Window `json:"window"`
	Steps  []Step `json:"steps"`
	// LostGPUSeconds is the work that is lost in all.
	LostGPUSeconds int64 `json:"lostGPUSeconds"`
	// NoEnd are workloads that are stopped and of which nothing says when they are over by themselves: they are taken to run beyond the
	// window. NoCheckpoint are those of which nothing says that they save their state: they are taken to lose all since their start.
	NoEnd        []string `json:"noEnd,omitempty"`
	NoCheckpoint []string `json:"noCheckpoint,omitempty"`
	// Learned are workloads whose end is a guess, from how long work like them took: those that are over by then, and those that are stopped.
	Learned []string `json:"learned,omitempty"`
	// Best says that no other moments lose less; else they may.
	Best bool `json:"best"`
}

// Step is nodes that are drained at the same moment.
type Step struct {
	At    time.Time `json:"at"`
	Nodes []string  `json:"nodes"`
	Stops []Stop    `json:"stops,omitempty"`
	Over  []string  `json:"over,omitempty"` // workloads of these nodes that are over by then
}

// Stop is a workload that is stopped with a step.
type Stop struct {
	Workload    string `json:"workload"`
	GPUs        int64  `json:"gpus"`
	LostSeconds int64  `json:"lostSeconds"` // of its time, the new start included
}

const (
	// maxMoments bounds the moments that are looked at for workloads that share nodes.
	maxMoments = 2048
	// maxTried bounds the combinations that are all tried.
	maxTried = 20_000
)

// lost is what the workload loses if it is stopped then.
func (w *Work) lost(at time.Time) time.Duration {
	if w.over(at) {
		return 0
	}
	ran := max(0, at.Sub(w.Started))
	if w.Checkpoint > 0 {
		ran %= w.Checkpoint
	}
	return ran + w.Restart
}

// cost is the same in seconds on all of its GPUs.
func (w *Work) cost(at time.Time) int64 { return int64(w.lost(at)/time.Second) * w.GPUs }

func (w *Work) over(at time.Time) bool { return !w.Ends.IsZero() && !at.Before(w.Ends) }

// Make plans the nodes, in any order, and works that run on them. Works that name none of the nodes do not count.
func Make(window Window, nodes []string, works []Work) Plan {
	out := Plan{Window: window, Best: true}
	nodes = slices.Compact(slices.Sorted(slices.Values(nodes)))
	at := make(map[string]time.Time, len(nodes))
	for _, c := range components(nodes, works) {
		out.Best = c.choose(window) && out.Best
		for i, n := range c.nodes {
			at[n] = c.moments[c.at[i]]
		}
	}
	slices.SortStableFunc(nodes, func(a, b string) int { return at[a].Compare(at[b]) })
	for _, n := range nodes {
		if last := len(out.Steps) - 1; last < 0 || !out.Steps[last].At.Equal(at[n]) {
			out.Steps = append(out.Steps, Step{At: at[n]})
		}
		last := &out.Steps[len(out.Steps)-1]
		last.Nodes = append(last.Nodes, n)
	}
	for _, w := range sorted(works) {
		i := slices.IndexFunc(out.Steps, func(s Step) bool {
			return slices.ContainsFunc(s.Nodes, func(n string) bool { return slices.Contains(w.Nodes, n) })
		})
		if i < 0 {
			continue
		}
		s := &out.Steps[i]
		if w.Learned {
			out.Learned = append(out.Learned, w.Key)
		}
		if w.over(s.At) {
			s.Over = append(s.Over, w.Key)
			continue
		}
		lost := int64(w.lost(s.At) / time.Second)
		s.Stops = append(s.Stops, Stop{w.Key, w.GPUs, lost})
		out.LostGPUSeconds += lost * w.GPUs
		if w.Ends.IsZero() {
			out.NoEnd = append(out.NoEnd, w.Key)
		}
		if w.Checkpoint == 0 {
			out.NoCheckpoint = append(out.NoCheckpoint, w.Key)
		}
	}
	return out
}

func sorted(works []Work) []Work {
	return slices.SortedFunc(slices.Values(works), func(a, b Work) int { return strings.Compare(a.Key, b.Key) })
}

// component is nodes that workloads have in common, directly or through others.
type component struct {
	nodes   []string
	works   []Work
	on      [][]int // the nodes of each workload, by index
	moments []time.Time
	at      []int // of each node, an index of moments
}

func components(nodes []string, works []Work) (out []*component) {
	of := make(map[string]*component, len(nodes))
	for _, n := range nodes {
		of[n] = &component{nodes: []string{n}}
	}
	for _, w := range sorted(works) {
		var into *component
		for _, n := range w.Nodes {
			c := of[n]
			switch {
			case c == nil || c == into:
			case into == nil:
				into = c
			default:
				into.nodes, into.works = append(into.nodes, c.nodes...), append(into.works, c.works...)
				for _, moved := range c.nodes {
					of[moved] = into
				}
			}
		}
		if into != nil {
			into.works = append(into.works, w)
		}
	}
	seen := make(map[*component]bool)
	for _, n := range nodes {
		if c := of[n]; !seen[c] {
			seen[c] = true
			slices.Sort(c.nodes)
			for _, w := range c.works {
				var on []int
				for _, name := range w.Nodes {
					if i, ok := slices.BinarySearch(c.nodes, name); ok {
						on = append(on, i)
					}
				}
				c.on = append(c.on, on)
			}
			out = append(out, c)
		}
	}
	return out
}

// choose finds the moments of the nodes, and says whether there are no better ones. Of equally good ones the earliest are taken.
func (c *component) choose(window Window) (best bool) {
	var thinned bool
	c.moments, thinned = c.turns(window)
	c.at = make([]int, len(c.nodes))
	tried := 1
	for range c.nodes {
		if tried *= len(c.moments); tried > maxTried {
			c.descend()
			return false
		}
	}
	at := slices.Clone(c.at)
	least := c.lost(at)
	for next(at, len(c.moments)) {
		if lost := c.lost(at); lost < least {
			least = lost
			copy(c.at, at)
		}
	}
	return !thinned
}

// next counts on by one; false: all have been counted.
func next(at []int, base int) bool {
	for i := range at {
		if at[i]++; at[i] < base {
			return true
		}
		at[i] = 0
	}
	return false
}

// descend takes the best moment for all nodes, and then moves single nodes while that helps.
func (c *component) descend() {
	at := make([]int, len(c.nodes))
	least := c.lost(at)
	for m := 1; m < len(c.moments); m++ {
		for i := range at {
			at[i] = m
		}
		if lost := c.lost(at); lost < least {
			least = lost
			copy(c.at, at)
		}
	}
	for moved := true; moved; {
		moved = false
		for i := range c.at {
			if best := c.bestOf(i); best != c.at[i] {
				c.at[i], moved = best, true
			}
		}
	}
}

// bestOf is the moment at which the node's own workloads lose least, while all other nodes stay where they are; the present one
// if none is better.
func (c *component) bestOf(node int) int {
	type bound struct {
		work   *Work
		others int // the first moment of its other nodes
	}
	var all []bound
	for i := range c.works {
		if !slices.Contains(c.on[i], node) {
			continue
		}
		others := len(c.moments)
		for _, n := range c.on[i] {
			if n != node {
				others = min(others, c.at[n])
			}
		}
		all = append(all, bound{&c.works[i], others})
	}
	lost := func(m int) (sum int64) {
		for _, b := range all {
			sum += b.work.cost(c.moments[min(m, b.others)])
		}
		return sum
	}
	best := c.at[node]
	least := lost(best)
	for m := range c.moments {
		if l := lost(m); l < least {
			best, least = m, l
		}
	}
	return best
}

// lost is the GPU-seconds that are lost with the nodes drained at these moments.
func (c *component) lost(at []int) (sum int64) {
	for i := range c.works {
		w := &c.works[i]
		first := len(c.moments)
		for _, n := range c.on[i] {
			first = min(first, at[n])
		}
		sum += w.cost(c.moments[first])
	}
	return sum
}

// turns are the moments at which it pays to drain, in order: the beginning of the window, and in it the ends and checkpoints of
// workloads. thinned says that there were too many.
func (c *component) turns(window Window) (out []time.Time, thinned bool) {
	out = append(out, window.From)
	add := func(t time.Time) {
		if t.After(window.From) && !t.After(window.To) {
			out = append(out, t)
		}
	}
	for i := range c.works {
		w := &c.works[i]
		add(w.Ends)
		if w.Checkpoint <= 0 {
			continue
		}
		every := w.Checkpoint
		if span := window.To.Sub(window.From); span/every > maxMoments { // then any moment is about as good
			every *= span/every/maxMoments + 1
			thinned = true
		}
		t := w.Started
		if late := window.From.Sub(t); late > 0 {
			t = t.Add(late / w.Checkpoint * w.Checkpoint)
		}
		for ; !t.After(window.To); t = t.Add(every) {
			add(t)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	out = slices.CompactFunc(out, time.Time.Equal)
	if len(out) > maxMoments {
		kept := make([]time.Time, maxMoments)
		for i := range kept {
			kept[i] = out[i*len(out)/maxMoments]
		}
		return kept, true
	}
	return out, thinned
}
