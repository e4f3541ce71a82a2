package scheduler

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// echoes are bindings that the API server took and that the watch of pods has not shown yet: how far the watch is behind.
type echoes struct {
	mu   sync.Mutex
	sent map[types.UID]time.Time
}

// taken notes a binding that the API server has just taken; seen says whether the watch has shown it already.
func (e *echoes) taken(uid types.UID, now time.Time, seen func() bool) (shown bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if seen() {
		return true
	}
	if e.sent == nil {
		e.sent = make(map[types.UID]time.Time)
	}
	e.sent[uid] = now
	return false
}

// shown says how long the watch took to show a binding that was noted; not known: none was, or not yet.
func (e *echoes) shown(uid types.UID, now time.Time) (after time.Duration, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, known := e.sent[uid]
	delete(e.sent, uid)
	return now.Sub(at), known
}

// oldest is how long the oldest binding has not been shown; 0: there is none.
func (e *echoes) oldest(now time.Time) (age time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, at := range e.sent {
		age = max(age, now.Sub(at))
	}
	return age
}

// podSeen and podGone take in what the watch of pods shows.
func (s *scheduler) podSeen(p *corev1.Pod) {
	s.feed.Set(p)
	if p.Spec.NodeName == "" {
		return
	}
	if p.Annotations[v1alpha1.KeyCheckpointed] != "" {
		s.inbox.Wake() // it may wait for nothing else
	}
	if after, known := s.echoes.shown(p.UID, time.Now()); known {
		s.opts.metrics.Seen(after)
	}
}

func (s *scheduler) podGone(p *corev1.Pod) {
	s.feed.Remove(p)
	s.echoes.shown(p.UID, time.Now())
}
