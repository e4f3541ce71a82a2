package api

import (
	"strings"
)

func CompareRefs(a, b Ref) int {
	if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

func (n *Node) Ref() Ref { return Ref{KindNode, n.Name, n.Version} }

func (p *Pod) Ref() Ref { return Ref{KindPod, p.Key, p.Version} }

func (g *Gang) Ref() Ref { return Ref{KindGang, g.Key, g.Version} }

func (q *Queue) Ref() Ref { return Ref{KindQueue, q.Name, q.Version} }

func (a *Assumption) Ref() Ref { return Ref{KindAssumption, a.Pod, a.Version} }

func (r *Refusal) Ref() Ref { return Ref{KindRefusal, r.Pod + "@" + r.Node, r.Version} }

func (h *Hold) Ref() Ref { return Ref{KindHold, h.Gang + "@" + h.Node, h.Version} }

func (d *Disruption) Ref() Ref { return Ref{KindDisruption, d.Key, d.Version} }

func (b *Booking) Ref() Ref { return Ref{KindBooking, b.Name, b.Version} }

func (e *Eviction) Ref() Ref { return Ref{KindEviction, e.Pod, e.Version} }

func (p *Promise) Ref() Ref { return Ref{KindPromise, p.Gang, p.Version} }

func (u *QueueUsage) Ref() Ref { return Ref{KindUsage, u.Queue, u.Version} }

func (l *RunTimeEstimate) Ref() Ref { return Ref{KindRunTimeEstimate, l.Like, l.Version} }

func (l *Degradation) Ref() Ref { return Ref{KindDegradation, l.Gang, l.Version} }

// Ref names the object in the change; false where there is none: of a Gone, or a Settled.
func (c *Change) Ref() (Ref, bool) {
	switch {
	case c.Pod != nil:
		return c.Pod.Ref(), true
	case c.Node != nil:
		return c.Node.Ref(), true
	case c.Gang != nil:
		return c.Gang.Ref(), true
	case c.Queue != nil:
		return c.Queue.Ref(), true
	case c.Assumption != nil:
		return c.Assumption.Ref(), true
	case c.Refusal != nil:
		return c.Refusal.Ref(), true
	case c.Hold != nil:
		return c.Hold.Ref(), true
	case c.Disruption != nil:
		return c.Disruption.Ref(), true
	case c.Booking != nil:
		return c.Booking.Ref(), true
	case c.Eviction != nil:
		return c.Eviction.Ref(), true
	case c.Promise != nil:
		return c.Promise.Ref(), true
	case c.Usage != nil:
		return c.Usage.Ref(), true
	case c.RunTimeEstimate != nil:
		return c.RunTimeEstimate.Ref(), true
	case c.Degradation != nil:
		return c.Degradation.Ref(), true
	case c.RequestMix != nil:
		return c.RequestMix.Ref(), true
	}
	return Ref{}, false
}

// Dated says whether the change says when it was made.
func (c Change) Dated() bool {
	return c.Promise != nil || c.Eviction != nil || c.Hold != nil || c.Degradation != nil
}
