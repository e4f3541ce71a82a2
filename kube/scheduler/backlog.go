package scheduler

import (
	"context"
	"sync"
)

// backlog hands items from the cycle to a worker, first in first out, without a bound: the cycle never waits.
type backlog[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // capacity 1: there is something
}

func newBacklog[T any]() *backlog[T] { return &backlog[T]{ready: make(chan struct{}, 1)} }

func (q *backlog[T]) put(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.wake()
}

func (q *backlog[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// get waits for an item; ok is false once ctx has ended, whatever is left.
func (q *backlog[T]) get(ctx context.Context) (item T, ok bool) {
	for ctx.Err() == nil {
		if item, ok = q.next(); ok {
			return item, true
		}
		select {
		case <-ctx.Done():
		case <-q.ready:
		}
	}
	return item, false
}

func (q *backlog[T]) next() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return item, false
	}
	item, q.items = q.items[0], q.items[1:]
	if len(q.items) > 0 {
		q.wake()
	}
	return item, true
}
