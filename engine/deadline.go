package engine

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
func (s *State) assume(a *api.Assumption) {
	s.assumptions[a.Pod] = a
	s.unused[a.Pod] = true
	heap.Push(&s.deadlines, deadline{a.Until, a.Pod})
	if p := s.pods[a.Pod]; p != nil {
		s.resettle(p)
		s.weigh(p)
	}
}

// weigh notes whether the pod sits by the assumption about it, if there is one.
func (s *State) weigh(p *pod) {
	switch a := s.assumptions[p.Key]; {
	case a == nil:
	case s.assumed(p) == a:
		delete(s.unused, p.Key)
	default:
		s.unused[p.Key] = true
	}
}

// over lists, by pod, the assumptions that no pod sits by, and those whose time has come. next is when the next
// one's time comes; zero: there is none.
func (s *State) over(now time.Time) (pods []string, next time.Time) {
	pods = sortedKeys(s.unused)
	var seen []deadline
	for len(s.deadlines) > 0 {
		top := s.deadlines[0]
		a := s.assumptions[top.pod]
		if a == nil || !a.Until.Equal(top.at) {
			heap.Pop(&s.deadlines)
			continue
		}
		if live(a.Until, now) && !s.unused[top.pod] {
			next = a.Until
			break
		}
		if !s.unused[top.pod] {
			pods = append(pods, top.pod)
		}
		seen = append(seen, heap.Pop(&s.deadlines).(deadline))
	}
	for _, d := range seen {
		heap.Push(&s.deadlines, d)
	}
	slices.Sort(pods)
	return slices.Compact(pods), next
}
