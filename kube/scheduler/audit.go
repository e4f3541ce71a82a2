package scheduler

import (
	"sync/atomic"
	"time"
)

// auditor recounts the engine's accounts, some of them every minute in which something happens. What it finds is an
// error in the engine: an alarm, and nothing is decided by it.
type auditor struct {
	last  time.Time
	from  int
	found atomic.Int64
}

const (
	auditEvery = time.Minute
	// auditMost bounds how many queues and nodes are looked at in one go.
	auditMost = 250
)

func (a *auditor) look(s *scheduler, now time.Time) {
	if now.Sub(a.last) < auditEvery {
		return
	}
	found, next := s.state.Audit(a.from, auditMost)
	a.last, a.from = now, next
	a.found.Add(int64(len(found)))
	for _, d := range found {
		s.log.Error("audit", "alarm", "AccountsDiffer", "kind", d.Kind, "key", d.Key, "account", d.Account, "resource", d.Resource, "kept", d.Kept, "counted", d.Counted)
	}
}
