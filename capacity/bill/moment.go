package bill

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/engine"
)

// Moment is a cluster at one time of its history. GPUs of work are thousandths.
type Moment struct {
	At    time.Time
	Nodes []Machine // those with GPUs, by name
	Work  []Work    // those with GPUs, by key
}

// Machine is a node with GPUs.
type Machine struct {
	Node  *engine.Node
	GPUs  int64 // whole ones
	Holds []Hold

	resource string // that counts GPUs
}

// Left is so many GPUs of a machine that nobody holds, which came as far as the stage.
type Left struct {
	Stage capacity.Stage
	GPUs  int64
}

// Left says how far so many of the machine's GPUs have come that nobody holds, those that came furthest first.
func (m *Machine) Left(gpus int64) (out []Left) {
	by := stagesOf(m.Node, m.GPUs, gpus*whole, m.resource)
	for stage := beforeHeld - 1; stage >= 0; stage-- {
		if by[stage] > 0 {
			out = append(out, Left{capacity.Stage(stage), by[stage] / whole})
		}
	}
	return out
}

// Hold is what a pod has of a machine.
type Hold struct {
	Pod, Work string // keys; Work is that of its gang, else of the pod
	GPUs      int64
	Devices   []string // that it has, where known
}

// Work is a gang, or a pod that is in none.
type Work struct {
	Key           string
	Queue         string
	Held, Waiting int64 // GPUs that it has, and that it asks for besides
	Nodes         int   // that it is on
}

// Moment is the cluster as it is after the last step.
func (b *Book) Moment() Moment {
	b.assign()
	m := Moment{At: b.at}
	work := make(map[string]*Work)
	of := func(p *pod) *Work {
		key := cmp.Or(p.value.Gang, p.value.Key)
		if work[key] == nil {
			work[key] = &Work{Key: key, Queue: p.who.Queue}
		}
		return work[key]
	}
	//archtest:any-order sorted below
	for _, n := range b.nodes {
		if n.other {
			continue
		}
		here := Machine{Node: n.value, GPUs: n.rate.gpus, resource: b.o.GPU}
		on := make(map[string]bool)
		//archtest:any-order sorted below
		for key, p := range n.pods {
			if p.asked == 0 {
				continue
			}
			w := of(p)
			w.Held += p.asked
			if !on[w.Key] {
				on[w.Key] = true
				w.Nodes++
			}
			here.Holds = append(here.Holds, Hold{Pod: key, Work: w.Key, GPUs: p.asked, Devices: p.value.Devices})
		}
		slices.SortFunc(here.Holds, func(a, b Hold) int { return cmp.Or(cmp.Compare(a.Work, b.Work), cmp.Compare(a.Pod, b.Pod)) })
		m.Nodes = append(m.Nodes, here)
	}
	//archtest:any-order they are added up
	for _, p := range b.pods {
		if p.node == "" && !p.value.Terminating && p.asked > 0 {
			of(p).Waiting += p.asked
		}
	}
	//archtest:any-order sorted below
	for _, w := range work {
		m.Work = append(m.Work, *w)
	}
	slices.SortFunc(m.Nodes, func(a, b Machine) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	slices.SortFunc(m.Work, func(a, b Work) int { return cmp.Compare(a.Key, b.Key) })
	return m
}

// Sum is a Moment in numbers.
type Sum struct {
	At                   time.Time
	Nodes                int
	GPUs                 int64 // whole ones
	Held, Waiting        int64 // thousandths
	Running, WaitingWork int
}

// Sum adds up a moment.
func (m *Moment) Sum() Sum {
	s := Sum{At: m.At, Nodes: len(m.Nodes)}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		s.GPUs += n.GPUs
		held := int64(0)
		for _, h := range n.Holds {
			held += h.GPUs
		}
		s.Held += min(held, n.GPUs*whole)
	}
	for i := range m.Work {
		s.Waiting += m.Work[i].Waiting
		if m.Work[i].Waiting > 0 {
			s.WaitingWork++
		}
		if m.Work[i].Held > 0 {
			s.Running++
		}
	}
	return s
}

// Changed is work that two moments differ in. Before and After are zero where it was not there.
type Changed struct {
	Key           string
	Before, After Work
	What          string // starts, ends, waits again, grows, shrinks, moves, is queued, leaves
}

// Difference is what became of the work of one moment by another: work that is the same in both is left out.
func Difference(before, after *Moment) []Changed {
	var out []Changed
	was := make(map[string]Work, len(before.Work))
	for _, w := range before.Work {
		was[w.Key] = w
	}
	for _, w := range after.Work {
		b := was[w.Key]
		delete(was, w.Key)
		if what := became(b, w); what != "" {
			out = append(out, Changed{w.Key, b, w, what})
		}
	}
	for _, w := range before.Work {
		if _, gone := was[w.Key]; gone {
			out = append(out, Changed{w.Key, w, Work{}, became(w, Work{})})
		}
	}
	slices.SortFunc(out, func(a, b Changed) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

func became(b, a Work) string {
	switch {
	case b.Held == 0 && a.Held > 0:
		return "starts"
	case b.Held > 0 && a.Held == 0 && a.Waiting > 0:
		return "waits again"
	case b.Held > 0 && a.Held == 0:
		return "ends"
	case b.Held > 0 && a.Held > b.Held:
		return "grows"
	case b.Held > a.Held:
		return "shrinks"
	case b.Held > 0 && b.Nodes != a.Nodes:
		return "moves"
	case b.Waiting == 0 && a.Waiting > 0:
		return "is queued"
	case b.Waiting > 0 && a.Waiting == 0 && a.Held == b.Held:
		return "leaves"
	}
	return ""
}
