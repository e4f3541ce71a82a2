package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// watcher sees pods get their nodes.
type watcher struct {
	events watch.Interface

	mu    sync.Mutex
	at    map[string]time.Time // by pod, since mark
	ended error                // why nothing more will be seen
	news  chan struct{}        // capacity 1: something changed
}

// watchBindings begins with what happens from now on. A connection that breaks is taken up where it broke.
func watchBindings(ctx context.Context, client kubernetes.Interface) (*watcher, error) {
	pods := client.CoreV1().Pods(namespace)
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: bound, Limit: 1})
	if err != nil {
		return nil, err
	}
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return pods.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	return follow(events), nil
}

func follow(events watch.Interface) *watcher {
	w := &watcher{events: events, at: make(map[string]time.Time), news: make(chan struct{}, 1)}
	go func() {
		err := w.take()
		w.note(func() { w.ended = err })
	}()
	return w
}

// take notes events until there are no more, and returns why.
func (w *watcher) take() error {
	for e := range w.events.ResultChan() {
		now := time.Now()
		switch o := e.Object.(type) {
		case *corev1.Pod:
			if e.Type == watch.Added {
				w.note(func() { w.at[o.Name] = now })
			}
		case *metav1.Status:
			return fmt.Errorf("the watch of pods: %s", o.Message)
		}
	}
	return errors.New("the watch of pods ended")
}

func (w *watcher) note(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watcher) stop() { w.events.Stop() }

// mark forgets what was seen so far.
func (w *watcher) mark() { w.note(func() { clear(w.at) }) }

// errTooSlow says that a scheduler was not done in time. What it did is a result all the same.
var errTooSlow = errors.New("not done in time")

// await returns when n pods have got their nodes since mark, or the limit has passed, with the times so far in
// order.
func (w *watcher) await(ctx context.Context, n int, limit time.Duration) ([]time.Time, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		count, ended := w.count()
		if count >= n {
			return w.seen(), nil
		}
		if ended != nil {
			return nil, ended
		}
		select {
		case <-w.news:
		case <-timer.C:
			return w.seen(), fmt.Errorf("%d of %d pods after %s: %w", count, n, limit, errTooSlow)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (w *watcher) count() (n int, ended error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.at), w.ended
}

// awaitPod returns when the pod of that name got its node.
func (w *watcher) awaitPod(ctx context.Context, name string, limit time.Duration) (time.Time, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		at, ok := w.at[name]
		w.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-w.news:
		case <-timer.C:
			return at, fmt.Errorf("pod %s after %s: %w", name, limit, errTooSlow)
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// seen is when the pods got their nodes, in order.
func (w *watcher) seen() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.SortedFunc(maps.Values(w.at), time.Time.Compare)
}
