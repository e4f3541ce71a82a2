package web

import (
	"fmt"
	"sync"
)

// places are how many viewers may be sent changes at a time, and who has them (ADR 226).
//
// While there are places, whoever comes gets one. When there are none, a newcomer takes the place of the one who came last among those who
// have more than they: in the namespace with the most viewers, if it has at least two more than the newcomer's; else in the newcomer's own,
// by the same rule between people. So nobody is sent away for a namespace or a person that would then have more than they, and nobody who
// was sent away can take the place back.
type places struct {
	most  int
	ofOne int // that one person may have, in all namespaces together

	mu   sync.Mutex
	next int64
	held map[*place]bool
}

// place is one viewer's.
type place struct {
	namespace, person string
	number            int64 // in the order in which they came
	leave             func(why error)
}

// fullError says why there is no place, in a sentence for the viewer.
type fullError string

func (f fullError) Error() string { return string(f) }

func newPlaces(most, ofOne int) *places {
	return &places{most: most, ofOne: ofOne, held: make(map[*place]bool)}
}

// take gives a place to a viewer of the page of a namespace ("": of all). leave is called, at most once, when somebody else gets it.
func (p *places) take(namespace, person string, leave func(why error)) (*place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ofPerson := 0
	for h := range p.held {
		if h.person == person {
			ofPerson++
		}
	}
	if ofPerson >= p.ofOne {
		return nil, fullError(fmt.Sprintf("You have %d pages of this cluster open, as many as one person may have: close one.", ofPerson))
	}
	if len(p.held) >= p.most {
		out := p.yields(namespace, person)
		if out == nil {
			return nil, fullError(fmt.Sprintf("All %d places for viewers are taken, %d of them by viewers of %s: close a page, or try again in a while.", p.most, p.of(namespace), page(namespace)))
		}
		delete(p.held, out)
		out.leave(fullError(fmt.Sprintf("All %d places for viewers are taken, and viewers of %s had the most: somebody who had fewer got this one. The page tries again.", p.most, page(out.namespace))))
	}
	p.next++
	out := &place{namespace: namespace, person: person, number: p.next, leave: leave}
	p.held[out] = true
	return out, nil
}

// give gives a place back, also one that somebody else was given already.
func (p *places) give(h *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, h)
}

func (p *places) of(namespace string) (n int) {
	for h := range p.held {
		if h.namespace == namespace {
			n++
		}
	}
	return n
}

// yields is whose place a newcomer gets; nil: nobody's.
func (p *places) yields(namespace, person string) *place {
	inNamespace := count(p.held, func(h *place) (string, bool) { return h.namespace, true })
	from, n := largest(inNamespace)
	if n < inNamespace[namespace]+2 {
		from = namespace
	}
	ofPerson := count(p.held, func(h *place) (string, bool) { return h.person, h.namespace == from })
	who, has := largest(ofPerson)
	if from == namespace && has < ofPerson[person]+2 {
		return nil
	}
	var last *place
	for h := range p.held {
		if h.namespace == from && h.person == who && (last == nil || h.number > last.number) {
			last = h
		}
	}
	return last
}

func count(held map[*place]bool, key func(*place) (string, bool)) map[string]int {
	out := make(map[string]int)
	for h := range held {
		if k, ok := key(h); ok {
			out[k]++
		}
	}
	return out
}

// largest is the key with the most, the first by name of several.
func largest(all map[string]int) (key string, n int) {
	for k, m := range all {
		if m > n || m == n && k < key {
			key, n = k, m
		}
	}
	return key, n
}

// page names the page of a namespace.
func page(namespace string) string {
	if namespace == "" {
		return "the whole cluster"
	}
	return "namespace " + namespace
}
