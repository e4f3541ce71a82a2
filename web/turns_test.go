package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns has one person ask far more than is worked at, and others once: they are answered after what is being worked at, not after
// all that was asked before.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2, 40)
		var mu sync.Mutex
		var seconds []string // in which each turn began, and whose it was
		began := time.Now()
		ask := func(namespace, person string) {
			go func() {
				leave, err := turns.take(t.Context(), namespace, person)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seconds = append(seconds, fmt.Sprintf("%.0f %s", time.Since(began).Seconds(), person))
				mu.Unlock()
				time.Sleep(time.Second)
				leave()
			}()
			synctest.Wait()
		}
		for range 30 {
			ask("a", "ann")
		}
		ask("a", "abe")
		for range 3 {
			ask("b", "bob")
		}
		time.Sleep(2500 * time.Millisecond)
		mu.Lock()
		slices.Sort(seconds) // two turns begin in the same moment
		if got, want := strings.Join(seconds, ", "), "0 ann, 0 ann, 1 abe, 1 bob, 2 ann, 2 bob"; got != want {
			t.Errorf("turns by second: %s, want %s", got, want)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		if len(seconds) != 34 || turns.n != 0 || len(turns.waiting)+len(turns.spaces)+len(turns.people) != 0 {
			t.Errorf("%d were answered; left: %+v", len(seconds), turns)
		}
	})
}

// TestTurnsEnd is who does not wait any longer, who asks too much at once, and who goes in the moment in which their turn comes.
func TestTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1, 3)
		leave, err := turns.take(t.Context(), "a", "ann")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 4)
		for range 3 {
			go func() {
				_, err := turns.take(ctx, "a", "ann")
				gone <- err
			}()
		}
		synctest.Wait()
		if _, err := turns.take(t.Context(), "a", "ann"); !errors.As(err, new(fullError)) || !strings.Contains(err.Error(), "3 of your questions are waiting") {
			t.Errorf("the fourth: %v", err)
		}
		cancel()
		for range 3 {
			if err := <-gone; !errors.Is(err, errBusy) {
				t.Error(err)
			}
		}
		leave()
		for i := range 100 { // the turn comes and the asker goes at once
			first, err := turns.take(t.Context(), "a", "ann")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if leave, err := turns.take(ctx, "b", fmt.Sprint(i)); err == nil {
					leave()
				}
			}()
			synctest.Wait()
			go cancel()
			first()
			synctest.Wait()
		}
		if turns.n != 0 || len(turns.waiting)+len(turns.spaces)+len(turns.people) != 0 {
			t.Errorf("left: %+v", turns)
		}
	})
}
