package lang

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// What counts towards the memory of a shell besides bytes of text. The figures are what Go takes, rounded up.
const (
	shellCost = 8 << 10 // a shell: its goroutine, its tables
	levelCost = 4 << 10 // stack of a statement inside a statement
	freeDepth = 16      // levels that every shell has
	varCost   = 192     // a variable
	mapCost   = 96      // an element of an associative array
	fieldCost = 96      // a field while a word is split
	tokenCost = 240     // a token of the syntax tree
	textCost  = 8       // a byte of source that is not a token of its own
)

// hold counts n bytes until the statement that runs now is over.
func (s *Shell) hold(n int64) error {
	if err := s.mem.Take(n); err != nil {
		return errMemory
	}
	s.held += n
	return nil
}

// drop gives back what was held since mark.
func (s *Shell) drop(mark int64) {
	s.mem.Give(s.held - mark)
	s.held = mark
}

// holdAll counts a list of strings that was made for the statement, each byte times as often.
func (s *Shell) holdAll(list []string, times int64) bool {
	total := int64(0)
	for _, text := range list {
		total += times * budget.Size(len(text))
	}
	if s.hold(total) != nil {
		return s.stopped()
	}
	return true
}

// setParams replaces the positional parameters and returns what brings the old ones back.
func (s *Shell) setParams(list []string) (undo func()) {
	size := sizeOfList(list)
	if s.mem.Take(size) != nil {
		s.stopped()
		return func() {}
	}
	params, held := s.params, s.paramsHeld
	s.params, s.paramsHeld = list, size
	return func() {
		s.mem.Give(s.paramsHeld)
		s.params, s.paramsHeld = params, held
	}
}

// keepParams is setParams for good.
func (s *Shell) keepParams(list []string) {
	before := s.paramsHeld
	s.setParams(list)
	s.mem.Give(before)
}

func sizeOfList(list []string) int64 {
	total := int64(0)
	for _, text := range list {
		total += budget.Size(len(text))
	}
	return total
}

// sourceCost is about what the syntax tree of some source takes: every sign that can end a word may begin a node.
func sourceCost(src []byte) int64 {
	total := int64(0)
	for _, c := range src {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_/.=-", c) >= 0, c >= 0x80:
			total += textCost
		default:
			total += tokenCost
		}
	}
	return total
}

// nodeCost is about what a part of a syntax tree takes, from the length of its source.
func nodeCost(n syntax.Node) int64 {
	return int64(n.End().Offset()-n.Pos().Offset()) * tokenCost / 2
}

// work pays for n bytes that are looked at in one go, beside the step that asked for it.
func (s *Shell) work(n int64) {
	if steps := n >> 10; steps > 0 {
		_ = s.host.Spend(s.life, int(min(steps, maxWork)))
	}
}

// maxWork bounds what one piece of work is charged: more than any can take.
const maxWork = 1 << 20
