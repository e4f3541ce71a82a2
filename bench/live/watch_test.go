package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

func TestAwaitGivesWhatThereIsWhenTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFake()
		w := follow(events)
		defer w.stop()
		start := time.Now()
		for i, name := range []string{"a", "b"} {
			time.Sleep(time.Second)
			events.Add(pod(name, 1))
			events.Modify(pod(name, 1)) // a later change of a bound pod is no binding
			if times, err := w.await(t.Context(), i+1, time.Second); err != nil || len(times) != i+1 {
				t.Fatalf("%d times, %v", len(times), err)
			}
		}
		times, err := w.await(t.Context(), 3, time.Minute)
		if !errors.Is(err, errTooSlow) || len(times) != 2 {
			t.Errorf("%d times, %v", len(times), err)
		}
		if first, last := times[0].Sub(start), times[1].Sub(start); first != time.Second || last != 2*time.Second {
			t.Errorf("bound after %s and %s", first, last)
		}
		w.mark()
		if n, _ := w.count(); n != 0 {
			t.Errorf("%d pods after the mark", n)
		}
	})
}

func TestAwaitFailsWithTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFake()
		w := follow(events)
		time.AfterFunc(time.Second, events.Stop)
		if _, err := w.await(context.Background(), 1, time.Minute); err == nil || errors.Is(err, errTooSlow) {
			t.Errorf("got %v: a measurement without a watch is no result", err)
		}
	})
}
