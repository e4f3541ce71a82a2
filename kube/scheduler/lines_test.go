package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Tasks that do not end hold up their own namespace alone.
func TestLinesKeepNamespacesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newLines[string](4)
		for n := range 100 {
			for range 50 {
				q.put(fmt.Sprint("hostile-", n), "", "hang")
			}
		}
		var mu sync.Mutex
		var done []string
		go q.run(ctx, func(what string) bool {
			if what == "hang" {
				<-ctx.Done()
				return true
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, what)
			return false
		})
		q.put("clean", "", "a")
		synctest.Wait()
		mu.Lock()
		if diff := cmp.Diff([]string{"a"}, done); diff != "" {
			t.Error(diff)
		}
		mu.Unlock()
		cancel()
		synctest.Wait()
		if here, all := q.waiting("hostile-1"); here != 50 || all != 5000 {
			t.Errorf("%d and %d are left", here, all)
		}
	})
}

// What is about one object is done one after the other, in order; what asks for it is done again, after the others.
func TestLinesKeepTheOrderOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := newLines[string](8)
		for i := range 20 {
			q.put("a", "x", fmt.Sprintf("x%02d", i))
			q.put("a", "y", fmt.Sprintf("y%02d", i))
		}
		var mu sync.Mutex
		var x, y []string
		failed := false
		go q.run(ctx, func(what string) bool {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if what == "y19" && !failed {
				failed = true
				return true
			}
			if what[0] == 'x' {
				x = append(x, what)
			} else {
				y = append(y, what)
			}
			return false
		})
		time.Sleep(22 * time.Second)
		cancel()
		synctest.Wait()
		if len(x) != 20 || len(y) != 20 || !slices.IsSorted(x) || !slices.IsSorted(y) {
			t.Errorf("x %q, y %q", x, y)
		}
		if len(q.byNS) != 0 || q.here != 0 || q.left != 0 {
			t.Errorf("left over: %d lines, %d goroutines, %d tasks", len(q.byNS), q.here, q.left)
		}
	})
}
