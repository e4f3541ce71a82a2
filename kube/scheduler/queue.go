package scheduler

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// queue hands items from the cycle to workers, first in first out, without a bound: the cycle never waits.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	ready chan struct{} // capacity 1: there is something
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

func (q *queue[T]) put(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	q.wake()
}

func (q *queue[T]) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// get waits for an item; ok is false once ctx has ended.
func (q *queue[T]) get(ctx context.Context) (item T, ok bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			item, q.items = q.items[0], q.items[1:]
			more := len(q.items) > 0
			q.mu.Unlock()
			if more {
				q.wake()
			}
			return item, true
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return item, false
		case <-q.ready:
		}
	}
}

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }
