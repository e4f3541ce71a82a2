package budget

import (
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestVictims checks who is killed: of the container whose limit is reached, or of all, whoever holds the most.
func TestVictims(t *testing.T) {
	m := NewMemory(100, 10)
	var killed []string
	open := func(g *Group, name string) *Account { return g.Open(func() { killed = append(killed, name) }) }
	g, h := m.Group(60), m.Group(60)
	small, large, other := open(g, "small"), open(g, "large"), open(h, "other")
	must := func(a *Account, n int64, want error) {
		t.Helper()
		if err := a.Take(n); !errors.Is(err, want) {
			t.Errorf("Take(%d): %v, want %v", n, err, want)
		}
	}
	must(small, 15, nil)
	must(large, 40, nil)
	must(small, 10, nil) // 65 of 60: the large one of the same container goes
	must(large, 1, ErrMemory)
	must(other, 55, nil)
	must(small, 30, nil) // 55 and 55, less 10 each: within 100
	third := open(m.Group(60), "third")
	must(third, 30, nil) // 110 of 100 beyond what is free: one of the two that hold the most goes
	must(third, 61, ErrMemory)
	if strings.Join(killed, " ") != "large small third" && strings.Join(killed, " ") != "large other third" {
		t.Errorf("killed %q", killed)
	}
}

// TestFree checks that a group which holds little is never refused for what others hold.
func TestFree(t *testing.T) {
	m := NewMemory(100, 10)
	hog := m.Group(200).Open(func() {})
	if err := hog.Take(110); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := m.Group(200).Open(func() { t.Error("killed") }).Take(10); err != nil {
			t.Fatal(err)
		}
	}
	if err := hog.Take(1); err == nil {
		t.Error("one byte beyond the limit of all is given")
	}
}

// TestBooks checks that whatever is taken, given and closed, no limit is passed and nothing stays counted.
func TestBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMemory(1<<20, 10<<10)
		groups := []*Group{m.Group(400 << 10), m.Group(400 << 10), m.Group(900 << 10)}
		var scopes []*Scope
		var accounts []*Account
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); {
			case op == 0 || len(scopes) == 0:
				a := rapid.SampledFrom(groups).Draw(t, "group").Open(func() {})
				accounts, scopes = append(accounts, a), append(scopes, a.Scope(), a.Scope())
			case op == 1:
				rapid.SampledFrom(scopes).Draw(t, "close").Close()
			case op == 2:
				rapid.SampledFrom(scopes).Draw(t, "give").Give(rapid.Int64Range(0, 300<<10).Draw(t, "n"))
			default:
				_ = rapid.SampledFrom(scopes).Draw(t, "take").Take(rapid.Int64Range(0, 500<<10).Draw(t, "n"))
			}
			if used, limit := m.Used(); used > limit || used < 0 {
				t.Fatalf("all hold %d of %d", used, limit)
			}
			for _, g := range groups {
				if used, limit := g.Used(); used > limit || used < 0 {
					t.Fatalf("a group holds %d of %d", used, limit)
				}
			}
		}
		for _, a := range accounts {
			a.Close()
		}
		if used, _ := m.Used(); used != 0 {
			t.Fatalf("%d stay counted", used)
		}
	})
}

func TestStore(t *testing.T) {
	s := NewStore(100, 10)
	held := int64(0)
	take := func(n int64) bool {
		ok := s.Take(held, n)
		if ok {
			held += n
		}
		return ok
	}
	if !take(110) || take(1) || !s.Take(0, 10) || s.Take(0, 11) {
		t.Error("the limit is not where it should be")
	}
	if !take(-110) || !take(110) {
		t.Error("what was given back cannot be taken again")
	}
}

// TestLines checks what a reader of lines returns, holds and refuses.
func TestLines(t *testing.T) {
	g := NewMemory(64<<20, 0).Group(64 << 20)
	mem := g.Open(func() {}).Scope()
	in := mem.Lines(strings.NewReader("a\n"+strings.Repeat("b", 10_000)+"\n\nlast"), '\n')
	var lengths []int
	for {
		line, err := in.Next()
		lengths = append(lengths, len(line))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := lengths; len(got) != 4 || got[0] != 2 || got[1] != 10_001 || got[2] != 1 || got[3] != 4 {
		t.Errorf("lines of %v bytes", got)
	}
	if used, _ := g.Used(); used < 10_000 {
		t.Errorf("%d bytes are counted for a long line", used)
	}
	in.Close()
	if used, _ := g.Used(); used > 16*grain {
		t.Errorf("%d bytes stay counted", used)
	}
	if _, err := mem.Lines(strings.NewReader(strings.Repeat("x", MaxLine+8192)), '\n').Next(); !errors.Is(err, ErrLine) {
		t.Errorf("a line that is too long: %v", err)
	}
}

func TestBuffer(t *testing.T) {
	g := NewMemory(1<<20, 0).Group(1 << 20)
	b := g.Open(func() {}).Scope().Buffer()
	if err := b.Fill(strings.NewReader(strings.Repeat("x", 2<<20))); !errors.Is(err, ErrMemory) {
		t.Errorf("2 MiB in 1: %v", err)
	}
	b = g.Open(func() {}).Scope().Buffer()
	_, _ = b.WriteString("hello ")
	_, _ = b.Write([]byte("world"))
	b.Drop(6)
	if text, err := b.Cut(); text != "world" || err != nil || b.Len() != 0 {
		t.Errorf("cut %q, %v", text, err)
	}
}
