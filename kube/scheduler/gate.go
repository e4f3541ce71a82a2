package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gate bounds the requests in flight so that the requests about one namespace cannot keep those about others waiting,
// even where an admission webhook of that namespace fails, or hangs. Every attempt passes it by itself: a request that waits to be
// tried again holds nothing.
//
//   - Namespaces take turns.
//   - A namespace may have as many requests in flight as its window allows. The window doubles with a request that the
//     server answered quickly and is halved by one that failed or was slow, and never takes all places.
//   - A request that is not answered within slowAfter leaves its place to others, as long as there are not too many such.
//   - Namespaces whose last request failed share a quarter of the places, those without a history a half. What goes wrong
//     in many namespaces at once leaves a quarter to those in which requests succeed.
//   - After a failure a namespace waits before its next request, twice as long after each, and not at all after a success.
//
// A pass costs a lock, a timer, and a look at each namespace that waits.
type gate struct {
	limit int // requests in flight that are not slow

	mu    sync.Mutex
	flows map[string]*flow
	ring  []*flow // those with requests that wait; the first has the next turn

	fast, slow      int // passes in flight, without and with those that slowAfter was too short for
	fresh, troubled int // passes in flight of namespaces without a history, and of those where the last request failed

	pressed   int // by pressing, then
	pressedAt time.Time
}

// flow is the requests about one namespace, as a flow of API Priority and Fairness is those of one user.
type flow struct {
	waiting      []*ticket
	open, window int
	known        bool      // a request succeeded
	troubles     int       // failures that no success has made up for
	last         error     // the last of them
	pause        time.Time // until when it waits after that
}

// ticket is a request that waits for its turn.
type ticket struct {
	turn chan struct{} // closed when it has come
	pass *pass         // once it has
}

// pass is a request in flight.
type pass struct {
	g     *gate
	flow  *flow
	class *int // of fresh and troubled the one that counts it, nil for neither
	timer *time.Timer
	slow  bool // it has left its place
	over  bool
}

const (
	// slowAfter is far longer than an API server that is well takes for a write.
	slowAfter = 300 * time.Millisecond
	// mostTroubles bounds how many successes make up for failures, and with that the wait after one, to 3.2 s.
	mostTroubles = 6
	// lostWait bounds it where nothing came back from the server.
	lostWait = 400 * time.Millisecond
	// mostFlows is how many namespaces are remembered.
	mostFlows = 4096
)

func newGate(limit int) *gate { return &gate{limit: limit, flows: make(map[string]*flow)} }

// enter waits for the namespace's turn. A caller that gets a pass ends it with done.
func (g *gate) enter(ctx context.Context, namespace string) (*pass, error) {
	g.mu.Lock()
	l := g.flow(namespace)
	t := &ticket{turn: make(chan struct{})}
	if l.waiting = append(l.waiting, t); len(l.waiting) == 1 {
		g.ring = append(g.ring, l)
	}
	g.admit()
	g.mu.Unlock()
	select {
	case <-t.turn:
		return t.pass, nil
	case <-ctx.Done():
		return g.leave(l, t), ctx.Err()
	}
}

// trouble is what the namespace's requests fail with, nil if they succeed, and how long it waits now.
func (g *gate) trouble(namespace string) (wait time.Duration, last error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.flows[namespace]; l != nil && l.troubles > 0 {
		return time.Until(l.pause), l.last
	}
	return 0, nil
}

// pressing is how many requests wait or are in flight, of namespaces where they succeed. Many callers ask, so that the count may
// be a moment old.
func (g *gate) pressing() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.pressedAt.Add(eventPause / 2)) {
		return g.pressed
	}
	g.pressedAt, g.pressed = now, 0
	for _, l := range g.flows {
		if l.known && l.troubles == 0 && l.window > 1 {
			g.pressed += l.open + len(l.waiting)
		}
	}
	return g.pressed
}

// leave ends waiting; a pass that was given in the same moment is given back.
func (g *gate) leave(l *flow, t *ticket) *pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.pass != nil {
		t.pass.end()
		g.admit()
		return nil
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *ticket) bool { return o == t })
	if len(l.waiting) == 0 {
		g.ring = slices.DeleteFunc(g.ring, func(o *flow) bool { return o == l })
	}
	return nil
}

func (g *gate) flow(namespace string) *flow {
	if l := g.flows[namespace]; l != nil {
		return l
	}
	if len(g.flows) >= mostFlows {
		for name, l := range g.flows {
			if l.open == 0 && len(l.waiting) == 0 {
				delete(g.flows, name)
			}
		}
	}
	l := &flow{window: 2}
	g.flows[namespace] = l
	return l
}

// admit gives turns while there are places.
func (g *gate) admit() {
	for passed := 0; passed < len(g.ring) && g.fast < g.limit; {
		l := g.ring[0]
		g.ring = g.ring[1:]
		if !g.start(l) {
			g.ring = append(g.ring, l)
			passed++
			continue
		}
		passed = 0
		if len(l.waiting) > 0 {
			g.ring = append(g.ring, l)
		}
	}
}

// start lets the first of the flow in, if it may have another request in flight.
func (g *gate) start(l *flow) bool {
	var class *int
	most := g.limit
	switch {
	case l.troubles > 0:
		class, most = &g.troubled, max(1, g.limit/4)
	case !l.known:
		class, most = &g.fresh, max(1, g.limit/2)
	}
	if l.open >= l.window || class != nil && *class >= most || time.Now().Before(l.pause) {
		return false
	}
	t := l.waiting[0]
	l.waiting = l.waiting[1:]
	p := &pass{g: g, flow: l, class: class}
	p.timer = time.AfterFunc(slowAfter, p.late)
	if l.open++; class != nil {
		*class++
	}
	g.fast++
	t.pass = p
	close(t.turn)
	return true
}

// late notes that the request is slow. It leaves its place to another if few are.
func (p *pass) late() {
	g := p.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.over {
		return
	}
	p.flow.window = max(1, p.flow.window/2)
	if g.slow < max(1, g.limit/2) {
		p.slow = true
		g.slow++
		g.fast--
		if p.class == &g.fresh {
			g.fresh--
			p.class = nil
		}
		g.admit()
	}
}

// done ends the pass with the server's answer.
func (p *pass) done(err error) {
	g, l := p.g, p.flow
	g.mu.Lock()
	defer g.mu.Unlock()
	quick := p.timer.Stop()
	p.end()
	switch {
	case err != nil && passing(err):
		l.troubles, l.window, l.last = min(l.troubles+1, mostTroubles), max(1, l.window/2), err
		wait := firstWait << l.troubles
		if lost(err) {
			wait = min(wait, lostWait) // the server itself is away, for everybody
		}
		l.pause = time.Now().Add(wait)
		time.AfterFunc(wait, g.resume)
	case quick:
		l.known, l.troubles, l.window, l.pause = true, max(0, l.troubles-1), min(2*l.window, max(1, g.limit-g.limit/6)), time.Time{}
	}
	g.admit()
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admit()
}

// end gives back what the pass takes.
func (p *pass) end() {
	p.timer.Stop()
	p.over = true
	p.flow.open--
	if p.class != nil {
		*p.class--
	}
	if p.slow {
		p.g.slow--
	} else {
		p.g.fast--
	}
}
