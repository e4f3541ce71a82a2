package scheduler

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

const (
	// lessonRuns is how many of the last run times of workloads like each other are kept, and lessonLeast how many
	// tell something.
	lessonRuns, lessonLeast = 64, 3
	// lessonKinds is how many kinds of workloads run times are kept of: those that ended last.
	lessonKinds = 4096
)

// lessons are the run times of workloads that succeeded, by the kind that convert names in Terms.Like. They are
// memory: a scheduler that starts learns anew.
type lessons struct {
	of     map[string]*runs
	ending map[string]*ending // gangs of which members have ended
	clock  uint64             // counts what was learned
}

type runs struct {
	took []time.Duration // the last ones, in a ring
	next int
	at   uint64 // when the last was learned
}

// ending is a gang whose members end one after the other.
type ending struct {
	since  time.Time
	like   string
	failed bool // a member did not succeed, or was taken away: nothing is learned
}

func newLessons() lessons {
	return lessons{of: make(map[string]*runs), ending: make(map[string]*ending)}
}

// ended learns from a pod of ours that is over, or gone (nil), after it has left its workload. How long a workload took
// counts from when its first pod got a node until its last is seen to have succeeded.
func (f *feed) ended(m *member, p *corev1.Pod) {
	if f.whatIf != nil || !m.ours || !m.given {
		return
	}
	ran := m.pod.Spec.NodeName != ""
	well := ran && p != nil && p.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	switch {
	case m.inGang():
		f.endedOf(m, ran, well)
	case well && !m.value.Started.IsZero():
		f.learn(m.value.Terms.Like, time.Since(m.value.Started))
	}
}

// endedOf is ended of a member of a gang.
func (f *feed) endedOf(m *member, ran, well bool) {
	e, left := f.lessons.ending[m.workload], f.gangs[m.workload]
	if e == nil && ran {
		e = &ending{like: f.described[m.workload].Terms.Like}
		f.lessons.ending[m.workload] = e
	}
	if e == nil {
		return
	}
	e.failed = e.failed || ran && !well
	e.begin(m)
	for _, other := range left {
		e.begin(other)
	}
	if len(left) > 0 {
		return
	}
	delete(f.lessons.ending, m.workload)
	if !e.failed && !e.since.IsZero() {
		f.learn(e.like, time.Since(e.since))
	}
}

// begin takes note of when a member got its node.
func (e *ending) begin(m *member) {
	if m.given && !m.value.Started.IsZero() && (e.since.IsZero() || m.value.Started.Before(e.since)) {
		e.since = m.value.Started
	}
}

// learn takes a run time in, and tells the engine once there are enough.
func (f *feed) learn(like string, took time.Duration) {
	if like == "" || took < 0 {
		return
	}
	l := &f.lessons
	l.clock++
	r := l.of[like]
	if r == nil {
		f.forgetLesson()
		r = &runs{}
		l.of[like] = r
	}
	r.add(took, l.clock)
	if len(r.took) >= lessonLeast {
		lesson := r.lesson(like)
		lesson.Version = f.made.next()
		f.inbox.put(engine.Change{Lesson: &lesson})
	}
}

// forgetLesson makes room for a kind: that goes of which nothing ended for longest.
func (f *feed) forgetLesson() {
	l := &f.lessons
	if len(l.of) < lessonKinds {
		return
	}
	oldest := ""
	for like, r := range l.of {
		if oldest == "" || r.at < l.of[oldest].at {
			oldest = like
		}
	}
	if len(l.of[oldest].took) >= lessonLeast {
		f.drop(engine.KindLesson, oldest, f.made.next())
	}
	delete(l.of, oldest)
}

func (r *runs) add(took time.Duration, at uint64) {
	r.at = at
	if len(r.took) < lessonRuns {
		r.took = append(r.took, took)
		return
	}
	r.took[r.next] = took
	r.next = (r.next + 1) % lessonRuns
}

// lesson is what the run times say: the ones below which a tenth, half and nine tenths of them are.
func (r *runs) lesson(like string) engine.Lesson {
	s := slices.Sorted(slices.Values(r.took))
	n := len(s)
	return engine.Lesson{Like: like, Count: n, Short: s[n/10], Median: s[n/2], Long: s[(9*n+9)/10-1]}
}
