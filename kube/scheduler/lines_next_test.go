package scheduler

// next takes a task of any line, when there are no workers.
func (q *lines[T]) next() (what T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, namespace := range sortedNames(q.byNS) {
		l := q.byNS[namespace]
		if t, ok := q.take(l); ok {
			delete(l.busy, t.object)
			return t.what, true
		}
	}
	return what, false
}
