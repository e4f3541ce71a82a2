package cluster

import (
	"container/heap"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
)

// deadlines are the times at which assumptions end, the earliest first. One whose assumption is gone, or ends at
// another time by now, is dropped when it comes up.
type deadlines []deadline

type deadline struct {
	at  time.Time
	pod string
}

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

// assume takes note of an assumption: when it ends, and whether its pod sits by it.
func (m *Model) assume(a *api.Assumption) {
	m.Assumptions[a.Pod] = a
	m.unused[a.Pod] = true
	heap.Push(&m.deadlines, deadline{a.Until, a.Pod})
	if p := m.Pods[a.Pod]; p != nil {
		m.reassignUnbound(p)
		m.weigh(p)
	}
}

// weigh notes whether the pod sits by the assumption about it, if there is one.
func (m *Model) weigh(p *Pod) {
	switch a := m.Assumptions[p.Key]; {
	case a == nil:
	case m.Assumed(p) == a:
		delete(m.unused, p.Key)
	default:
		m.unused[p.Key] = true
	}
}

// Over lists, by pod, the assumptions that no pod sits by, and those whose time has come. next is when the next
// one's time comes; zero: there is none.
func (m *Model) Over(now time.Time) (pods []string, next time.Time) {
	pods = SortedKeys(m.unused)
	var seen []deadline
	for len(m.deadlines) > 0 {
		top := m.deadlines[0]
		a := m.Assumptions[top.pod]
		if a == nil || !a.Until.Equal(top.at) {
			heap.Pop(&m.deadlines)
			continue
		}
		if Live(a.Until, now) && !m.unused[top.pod] {
			next = a.Until
			break
		}
		if !m.unused[top.pod] {
			pods = append(pods, top.pod)
		}
		seen = append(seen, heap.Pop(&m.deadlines).(deadline))
	}
	for _, d := range seen {
		heap.Push(&m.deadlines, d)
	}
	slices.Sort(pods)
	return slices.Compact(pods), next
}
