package record

import (
	"fmt"
	"strconv"

	"github.com/berth-dev/berth/engine"
)

// digest stands for what a plan decides: who starts where, and who waits for what. It is FNV-1a of 64 bits:
// its place is to notice a program that decides differently, not to withstand somebody who wants to deceive.
// Its JSON is a string of hex digits.
type digest uint64

const (
	basis digest = 14695981039346656037
	prime digest = 1099511628211
)

// text adds the string, and that it ends here.
func (d digest) text(s string) digest {
	for i := range len(s) {
		d = (d ^ digest(s[i])) * prime
	}
	return (d ^ 0xff) * prime // no byte of UTF-8 is 0xff
}

// MarshalText writes 16 hex digits.
func (d digest) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(d)), nil }

// UnmarshalText reads what MarshalText writes.
func (d *digest) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	*d = digest(v)
	return err
}

// digester makes digests. It remembers that of the last list of who waits, which the engine hands out again
// as long as nothing changes, however long it is.
type digester struct {
	waiting []engine.Waiting
	known   digest // of waiting
}

func (r *digester) of(p *engine.Plan) digest {
	if !same(r.waiting, p.Waiting) {
		r.waiting, r.known = p.Waiting, digestWaiting(p.Waiting)
	}
	d := r.known
	for i := range p.Starts {
		s := &p.Starts[i]
		d = d.text(s.Gang).text(string(s.Kind))
		for j := range s.Placements {
			d = digestPlacement(d, &s.Placements[j])
		}
	}
	return d
}

func digestWaiting(list []engine.Waiting) digest {
	d := basis
	for i := range list {
		w := &list[i]
		d = d.text(w.Gang).text(string(w.Verdict)).text(string(w.Cause))
	}
	return d
}

func digestPlacement(d digest, p *engine.Placement) digest {
	d = d.text(p.Pod).text(p.Node)
	for _, id := range p.Devices {
		d = d.text(id)
	}
	return d.text("")
}

// same says whether both are the same memory, and there is some.
func same(a, b []engine.Waiting) bool {
	return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0]
}
