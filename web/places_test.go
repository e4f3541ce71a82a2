package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// hall is places as a test fills them: viewers by "namespace person", who come and are sent away.
type hall struct {
	*places
	came map[string][]*place
	sent []string
}

func newHall(most, ofOne int) *hall {
	return &hall{places: newPlaces(most, ofOne), came: make(map[string][]*place)}
}

func (h *hall) come(namespace, person string) error {
	who := namespace + " " + person
	p, err := h.take(namespace, person, func(error) { h.sent = append(h.sent, who) })
	if err == nil {
		h.came[who] = append(h.came[who], p)
	}
	return err
}

func (h *hall) counted() map[string]int {
	return count(h.held, func(p *place) (string, bool) { return p.namespace + " " + p.person, true })
}

// TestPlaces has one namespace's viewers take all the places, and others come after them.
func TestPlaces(t *testing.T) {
	h := newHall(8, 6)
	for i := range 12 {
		err := h.come("team-a", fmt.Sprintf("ann-%d", i%4))
		if full := i >= 8; (err != nil) != full || full && !strings.Contains(err.Error(), "All 8 places for viewers are taken, 8 of them by viewers of namespace team-a") {
			t.Errorf("viewer %d: %v", i, err)
		}
	}
	for i := range 5 {
		err := h.come("team-b", "bob")
		if full := i >= 4; (err != nil) != full {
			t.Errorf("viewer %d of team-b: %v", i, err)
		}
	}
	if diff := cmp.Diff(map[string]int{"team-a ann-0": 1, "team-a ann-1": 1, "team-a ann-2": 1, "team-a ann-3": 1, "team-b bob": 4}, h.counted()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"team-a ann-0", "team-a ann-1", "team-a ann-2", "team-a ann-3"}, slices.Sorted(slices.Values(h.sent))); diff != "" {
		t.Error(diff)
	}
	if err := h.come("team-b", "bea"); err != nil { // within her namespace she has fewer than bob
		t.Error(err)
	}
	if err := h.come("", "root"); err != nil || h.counted()["team-a ann-0"]+h.counted()["team-b bob"] > 4 {
		t.Errorf("an administrator: %v, %v", err, h.counted())
	}
	h = newHall(100, 6)
	for i := range 8 {
		if err := h.come(fmt.Sprint("team-", i), "eve"); (err != nil) != (i >= 6) || err != nil && !strings.Contains(err.Error(), "You have 6 pages of this cluster open") {
			t.Errorf("page %d of one person: %v", i, err)
		}
	}
}

// TestPlacesAreFair has viewers come and go at random, and those who were sent away try again at once: there are never more than there are
// places, whoever has least is never sent away for somebody who has as much, and nobody takes their place back.
func TestPlacesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(t, "places")
		h := newHall(most, rapid.IntRange(1, 12).Draw(t, "of one"))
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			namespace, person := fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "namespace")), fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "person"))
			who := namespace + " " + person
			if mine := h.came[who]; len(mine) > 0 && rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				h.give(mine[0])
				h.came[who] = mine[1:]
				continue
			}
			before, had := maps.Clone(h.held), len(h.held)
			err := h.come(namespace, person)
			if len(h.held) > most || err == nil && len(h.held) != min(most, had+1) || err != nil && len(h.held) != had {
				t.Fatalf("%d of %d places are held, %d before: %v", len(h.held), most, had, err)
			}
			if len(h.sent) == 0 {
				continue
			}
			gone := strings.Fields(h.sent[0])
			h.sent = nil
			was := count(before, func(p *place) (string, bool) { return p.namespace, true })
			if gone[0] != namespace && was[gone[0]] < was[namespace]+2 {
				t.Fatalf("%s of %v was sent away for %s", gone, was, who)
			}
			if err := h.come(gone[0], gone[1]); err == nil || len(h.sent) > 0 {
				t.Fatalf("%s was sent away for %s, and took a place back from %s", gone, who, h.sent)
			}
		}
	})
}

// TestSharedPlaces fills the page in a cluster from one namespace, and comes from others: there is a place for each, and who loses one, or
// gets none, is told why.
func TestSharedPlaces(t *testing.T) {
	a := newAPIServer(t)
	a.fill(4)
	h := newHouse(t, a, research())
	h.admin()
	for i := range 5 {
		h.let(fmt.Sprint("tenant-", i), "get pages team-0", "list workloads team-0", "list queues team-0", "list pods team-0")
	}
	first := make([]*viewer, 5)
	for i := range mostViewers {
		r := h.get(fmt.Sprint("tenant-", i%5), "team-0", "api/stream")
		if r.StatusCode != http.StatusOK {
			t.Fatalf("viewer %d: %s", i, r.Status)
		}
		if i >= mostViewers-5 { // the last of each
			first[i%5] = view(t, r.Body)
		}
	}
	if code, text := h.read("tenant-0", "team-0", "api/stream"); code != http.StatusServiceUnavailable || !strings.Contains(text, "All 200 places for viewers are taken, 200 of them by viewers of namespace team-0: close a page") {
		t.Errorf("one more: %d %s", code, text)
	}
	admin := view(t, h.get("admin", "", "api/stream").Body)
	admin.until("the fleet", func() bool { return len(admin.values[kindNode]) == 4 })
	for first[0].lines.Scan() {
		if first[0].lines.Text() == "event: sorry" {
			first[0].lines.Scan()
			if line := first[0].lines.Text(); !strings.Contains(line, "viewers of namespace team-0 had the most") {
				t.Errorf("the one who lost a place is told %s", line)
			}
			return
		}
	}
	t.Error("nobody was told that they lost a place")
}
