package scheduler

import (
	"context"
	"slices"
	"sync"
)

// lines hands tasks to goroutines, in one line per namespace: each has a few goroutines of its own, so that tasks which
// take long, or wait to be tried again, hold up their own namespace alone. Within a line tasks begin first in first out;
// those about one object are done one after the other. The lines have no bound: the cycle never waits.
type lines[T any] struct {
	abreast int // tasks of one namespace at a time

	mu   sync.Mutex
	byNS map[string]*line[T]
	work func(T) (again bool) // nil: there is no worker
	left int                  // tasks that were not begun
	here int                  // goroutines
	gone *sync.Cond           // one of them ended
}

// line is the tasks of one namespace.
type line[T any] struct {
	tasks []task[T]
	at    int             // goroutines
	idle  int             // those of them that have no task yet
	busy  map[string]bool // objects of tasks under way
	under map[*T]bool     // tasks under way
}

type task[T any] struct {
	object string // that no other task under way may be about; "": none
	what   T
}

func newLines[T any](abreast int) *lines[T] {
	q := &lines[T]{abreast: abreast, byNS: make(map[string]*line[T])}
	q.gone = sync.NewCond(&q.mu)
	return q
}

// put adds a task.
func (q *lines[T]) put(namespace, object string, what T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.byNS[namespace]
	if l == nil {
		l = &line[T]{busy: make(map[string]bool), under: make(map[*T]bool)}
		q.byNS[namespace] = l
	}
	l.tasks = append(l.tasks, task[T]{object, what})
	q.left++
	q.begin(namespace, l)
}

// waiting is how many tasks were not begun yet: of the namespace, and of all.
func (q *lines[T]) waiting(namespace string) (here, all int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.byNS[namespace]; l != nil {
		here = len(l.tasks)
	}
	return here, q.left
}

// each calls do with the tasks of the namespace that are not done.
func (q *lines[T]) each(namespace string, do func(T)) {
	q.mu.Lock()
	var all []T
	if l := q.byNS[namespace]; l != nil {
		for what := range l.under {
			all = append(all, *what)
		}
		for _, t := range l.tasks {
			all = append(all, t.what)
		}
	}
	q.mu.Unlock()
	for _, what := range all {
		do(what)
	}
}

// run works until ctx ends and what is under way is done. A task that asks for it goes to the end of its line.
func (q *lines[T]) run(ctx context.Context, work func(T) (again bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open(work)
	q.mu.Unlock()
	<-ctx.Done()
	q.mu.Lock()
	q.work = nil
	q.wait()
}

// finish drops the tasks that were not begun and are not to be kept, and works until there are no others.
func (q *lines[T]) finish(keep func(T) bool, work func(T) (again bool)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = 0
	for _, l := range q.byNS {
		l.tasks = slices.DeleteFunc(l.tasks, func(t task[T]) bool { return !keep(t.what) })
		q.left += len(l.tasks)
	}
	q.open(work)
	q.wait()
	q.work = nil
}

func (q *lines[T]) open(work func(T) (again bool)) {
	q.work = work
	for namespace, l := range q.byNS {
		q.begin(namespace, l)
	}
}

func (q *lines[T]) wait() {
	for q.here > 0 {
		q.gone.Wait()
	}
}

// begin has as many goroutines in the line as there may be and are needed. Each takes its task when it runs, so that tasks
// begin in order whatever the order of goroutines.
func (q *lines[T]) begin(namespace string, l *line[T]) {
	for q.work != nil && l.at < q.abreast && l.idle < len(l.tasks) {
		l.at++
		l.idle++
		q.here++
		go q.stay(namespace, l)
	}
	if l.at == 0 && len(l.tasks) == 0 {
		delete(q.byNS, namespace)
	}
}

// stay works in the line until it has no task that can be begun.
func (q *lines[T]) stay(namespace string, l *line[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.idle--
	for q.work != nil {
		t, ok := q.take(l)
		if !ok {
			break
		}
		work := q.work
		l.under[&t.what] = true
		q.mu.Unlock()
		again := work(t.what)
		q.mu.Lock()
		delete(l.under, &t.what)
		delete(l.busy, t.object)
		if again {
			l.tasks = append(l.tasks, t)
			q.left++
		}
	}
	l.at--
	q.here--
	q.gone.Broadcast()
	if l.at == 0 && len(l.tasks) == 0 {
		delete(q.byNS, namespace)
	}
}

// take removes the first task of the line whose object is not busy.
func (q *lines[T]) take(l *line[T]) (t task[T], ok bool) {
	for i, t := range l.tasks {
		if t.object != "" && l.busy[t.object] {
			continue
		}
		if t.object != "" {
			l.busy[t.object] = true
		}
		if i == 0 {
			l.tasks = l.tasks[1:]
		} else {
			l.tasks = append(l.tasks[:i], l.tasks[i+1:]...)
		}
		q.left--
		return t, true
	}
	return t, false
}
