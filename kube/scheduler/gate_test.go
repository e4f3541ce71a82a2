package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// flood has many namespaces with many requests each that end with answer after took.
func flood(ctx context.Context, g *gate, namespaces, each int, took time.Duration, answer error) (wait func()) {
	var all sync.WaitGroup
	for n := range namespaces {
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					_ = g.once(ctx, fmt.Sprint("hostile-", n), func(ctx context.Context) error {
						sleep(ctx, took)
						return answer
					})
					sleep(ctx, 50*time.Millisecond)
				}
			})
		}
	}
	return all.Wait
}

// A namespace in which requests succeed waits for less than a second, whatever others do.
func TestGateKeepsNamespacesApart(t *testing.T) {
	down := errors.New("failed calling webhook")
	for name, hostile := range map[string]struct {
		namespaces, each int
		took             time.Duration
		answer           error
	}{
		"one fails":       {1, 2000, 5 * time.Millisecond, down},
		"one hangs":       {1, 2000, attemptFor, context.DeadlineExceeded},
		"many fail":       {200, 20, 5 * time.Millisecond, down},
		"many hang":       {40, 50, attemptFor, context.DeadlineExceeded},
		"thousand hang":   {1000, 5, attemptFor, context.DeadlineExceeded},
		"thousand answer": {1000, 5, 20 * time.Millisecond, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				g := newGate(binders)
				quick := func(context.Context) error { time.Sleep(5 * time.Millisecond); return nil }
				if err := g.once(ctx, "clean", quick); err != nil {
					t.Fatal(err)
				}
				wait := flood(ctx, g, hostile.namespaces, hostile.each, hostile.took, hostile.answer)
				for range 200 {
					began := time.Now()
					if err := g.once(ctx, "clean", quick); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > time.Second {
						t.Fatalf("waited %s", took)
					}
					time.Sleep(100 * time.Millisecond)
				}
				cancel()
				wait()
			})
		})
	}
}

// All places serve one namespace that is alone, but for a few that are there for the next.
func TestGateOpensForOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(48)
		most, open := 0, 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				_ = g.once(t.Context(), "a", func(context.Context) error {
					mu.Lock()
					open++
					most = max(most, open)
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					open--
					mu.Unlock()
					return nil
				})
			})
		}
		all.Wait()
		if most != 40 {
			t.Errorf("%d in flight at most, want 40", most)
		}
	})
}

// Whatever is asked for, answered and cancelled, in whatever order: the bounds hold, and in the end nothing is held.
func TestGateCounts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(r, "limit")
		type step struct {
			namespace           string
			after, took, cancel int
			fails               bool
		}
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "namespace"), rapid.IntRange(0, 50).Draw(r, "after"),
				rapid.IntRange(0, 1000).Draw(r, "took"), rapid.IntRange(1, 2000).Draw(r, "cancel"), rapid.Bool().Draw(r, "fails"),
			}
		}), 1, 60).Draw(r, "steps")
		synctest.Test(t, func(*testing.T) {
			g := newGate(limit)
			var all sync.WaitGroup
			for _, s := range steps {
				time.Sleep(time.Duration(s.after) * time.Millisecond)
				all.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.cancel)*time.Millisecond)
					defer cancel()
					_ = g.once(ctx, s.namespace, func(ctx context.Context) error {
						g.mu.Lock()
						if g.fast > limit || g.slow > max(1, limit/2) || g.fast+g.slow < 1 {
							r.Errorf("%d fast, %d slow of %d", g.fast, g.slow, limit)
						}
						g.mu.Unlock()
						sleep(ctx, time.Duration(s.took)*time.Millisecond)
						if s.fails {
							return errors.New("no")
						}
						return nil
					})
				})
			}
			all.Wait()
			if g.fast != 0 || g.slow != 0 || g.fresh != 0 || g.troubled != 0 || len(g.ring) != 0 {
				r.Errorf("left over: %d fast, %d slow, %d fresh, %d troubled, %d waiting", g.fast, g.slow, g.fresh, g.troubled, len(g.ring))
			}
			for name, l := range g.flows {
				if l.open != 0 || len(l.waiting) != 0 || l.window < 1 {
					r.Errorf("namespace %s is left with %d open, window %d", name, l.open, l.window)
				}
			}
		})
	})
}
