package web

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
)

// mostKept bounds the changes that are kept for viewers who are behind, in bytes. Who is further behind gets everything.
const mostKept = 4 << 20

// table is what viewers see: JSON values by kind and name, and the changes that led to it. Its version goes up by one with
// each change.
type table struct {
	id      string // another one for each: versions of two tables do not compare
	mu      sync.Mutex
	version int64
	values  map[string]map[string]json.RawMessage
	kept    []change // the latest, in order
	bytes   int      // of these
	whole   []byte   // of version wholeAt; nil: nobody asked since much changed
	wholeAt int64
	changed chan struct{}
}

// change is one step, encoded once for all viewers.
type change struct {
	to   int64
	text []byte
}

// message is what a viewer is told. Whole is of one that has the whole table: what it does not name is gone.
type message struct {
	To    int64                                 `json:"to"`
	Whole bool                                  `json:"whole,omitempty"`
	Of    string                                `json:"of,omitempty"` // of a whole: the table's id
	Set   map[string]map[string]json.RawMessage `json:"set,omitempty"`
	Gone  map[string][]string                   `json:"gone,omitempty"`
}

func newTable() *table {
	return &table{id: random(), values: make(map[string]map[string]json.RawMessage), changed: make(chan struct{})}
}

// put replaces all values of the kinds. It returns whether anything changed.
func (t *table) put(kinds map[string]map[string]json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := message{To: t.version + 1, Set: make(map[string]map[string]json.RawMessage), Gone: make(map[string][]string)}
	for kind, values := range kinds {
		was := t.values[kind]
		for name, v := range values {
			if bytes.Equal(was[name], v) {
				continue
			}
			if m.Set[kind] == nil {
				m.Set[kind] = make(map[string]json.RawMessage)
			}
			m.Set[kind][name] = v
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if _, ok := values[name]; !ok {
				m.Gone[kind] = append(m.Gone[kind], name)
			}
		}
		t.values[kind] = values
	}
	if len(m.Set)+len(m.Gone) == 0 {
		return false
	}
	t.version++
	t.keep(change{to: t.version, text: encode(m)})
	if i := t.after(t.wholeAt); i < 0 || t.size(i) > len(t.whole)/2 {
		t.whole = nil
	}
	close(t.changed)
	t.changed = make(chan struct{})
	return true
}

func (t *table) keep(c change) {
	t.kept = append(t.kept, c)
	t.bytes += len(c.text)
	drop := 0
	for t.bytes > mostKept && drop < len(t.kept) {
		t.bytes -= len(t.kept[drop].text)
		drop++
	}
	t.kept = slices.Delete(t.kept, 0, drop)
}

// since is what a viewer at the version has to hear to be at the latest: the changes, or everything where these are not kept
// or are more than that. It waits until there is something. 0 is a viewer that has nothing.
func (t *table) since(ctx context.Context, version int64) (texts [][]byte, to int64, err error) {
	for {
		t.mu.Lock()
		if t.version > 0 && t.version != version {
			texts, to = t.missed(version), t.version
			t.mu.Unlock()
			return texts, to, nil
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, version, ctx.Err()
		case <-changed:
		}
	}
}

// missed is what leads from a version to the latest. Everybody who comes before half as much has changed as there is is sent the same whole, and
// the changes since: who reads slowly keeps it, and many who do keep one.
func (t *table) missed(version int64) (texts [][]byte) {
	i := t.after(version)
	if version <= 0 || i < 0 || i > len(t.kept) { // anybody can ask for any version
		if t.whole == nil {
			t.whole, t.wholeAt = encode(message{To: t.version, Of: t.id, Whole: true, Set: t.values}), t.version
		}
		texts, i = append(texts, t.whole), t.after(t.wholeAt)
	}
	for _, c := range t.kept[i:] {
		texts = append(texts, c.text)
	}
	return texts
}

// after is the first of the kept changes that a viewer at the version has not; negative: more than these.
func (t *table) after(version int64) int {
	return int(version - t.version + int64(len(t.kept)))
}

// size is of the kept changes from the i-th on, in bytes.
func (t *table) size(i int) (n int) {
	for _, c := range t.kept[i:] {
		n += len(c.text)
	}
	return n
}

// encode writes a value that cannot fail to be written.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values
	}
	return text
}
