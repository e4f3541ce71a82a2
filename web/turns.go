package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// turns has so many questions worked at side by side, and gives the next turn to whoever had least (ADR 226): to the namespace with the fewest
// questions being worked at, of several to the one that had a turn longest ago, and within it by the same rule to a person. So whoever asks
// a thousand questions waits for themselves.
type turns struct {
	most   int // side by side
	ofOne  int // that one person may have waiting
	mu     sync.Mutex
	number int64 // of the last turn
	n      int   // being worked at
	// spaces and people, by namespace and by namespace/person. Those that neither wait nor work are forgotten.
	spaces, people map[string]*asker
	waiting        []*waiter // in the order in which they came
}

// asker is one of those among whom turns are divided.
type asker struct {
	running, waiting int
	last             int64 // number of their last turn
}

type waiter struct {
	namespace, person string
	turn              chan struct{} // closed when it is theirs
}

func newTurns(most, ofOne int) *turns {
	return &turns{most: most, ofOne: ofOne, spaces: make(map[string]*asker), people: make(map[string]*asker)}
}

var errBusy = errors.New("other questions are being answered: try again")

// take waits for a turn. leave ends it.
func (t *turns) take(ctx context.Context, namespace, person string) (leave func(), err error) {
	w := &waiter{namespace, namespace + "/" + person, make(chan struct{})}
	t.mu.Lock()
	if p := t.people[w.person]; p != nil && p.waiting >= t.ofOne {
		t.mu.Unlock()
		return nil, fullError(fmt.Sprintf("%d of your questions are waiting for an answer, as many as one person may have: try again in a while.", t.ofOne))
	}
	t.count(w, 0, 1)
	t.waiting = append(t.waiting, w)
	t.give()
	t.mu.Unlock()
	leave = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.n--
		t.count(w, -1, 0)
		t.give()
	}
	select {
	case <-w.turn:
		return leave, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.count(w, 0, -1)
		t.mu.Unlock()
		return nil, errBusy
	}
	t.mu.Unlock() // it came at the same moment
	leave()
	return nil, errBusy
}

// count notes what a waiter does. The caller has the lock.
func (t *turns) count(w *waiter, running, waiting int) {
	for key, all := range map[string]map[string]*asker{w.namespace: t.spaces, w.person: t.people} {
		a := all[key]
		if a == nil {
			a = &asker{}
			all[key] = a
		}
		a.running += running
		a.waiting += waiting
		if running > 0 {
			a.last = t.number
		}
		if a.running+a.waiting == 0 {
			delete(all, key)
		}
	}
}

// give hands out the turns that are free. The caller has the lock.
func (t *turns) give() {
	for t.n < t.most && len(t.waiting) > 0 {
		next := slices.MinFunc(t.waiting, func(a, b *waiter) int { // the first of equals
			return cmp.Or(t.spaces[a.namespace].compare(t.spaces[b.namespace]), t.people[a.person].compare(t.people[b.person]))
		})
		t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool { return w == next })
		t.n++
		t.number++
		t.count(next, 1, -1)
		close(next.turn)
	}
}

func (a *asker) compare(b *asker) int {
	return cmp.Or(cmp.Compare(a.running, b.running), cmp.Compare(a.last, b.last))
}
