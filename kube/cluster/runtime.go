package cluster

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

const (
	// estimateRuns is how many of the last run times of workloads like each other are kept, and estimateLeast how many
	// tell something.
	estimateRuns, estimateLeast = 64, 3
	// estimateKinds is how many kinds of workloads run times are kept of: those that ended last.
	estimateKinds = 4096
)

// runtimes are the run times of workloads that succeeded, by the kind that convert names in Terms.Like. The engine gets
// an estimate for a kind from them. They are memory: a scheduler that starts learns anew.
type runtimes struct {
	out    *output
	now    func() time.Time
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

func newRuntimes(out *output, now func() time.Time) *runtimes {
	return &runtimes{out: out, now: now, of: make(map[string]*runs), ending: make(map[string]*ending)}
}

// ended learns from a pod of ours that is over, or gone (nil), after it has left its workload, of which left are the
// members that are still there and like is the kind. How long a workload took counts from when its first pod got a node
// until its last is seen to have succeeded.
func (s *runtimes) ended(m *member, p *corev1.Pod, left map[string]*member, like string) {
	if !m.ours || !m.given {
		return
	}
	ran := m.bound()
	well := ran && p != nil && p.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	switch {
	case m.inGang():
		s.endedOf(m, left, like, ran, well)
	case well && !m.value.Started.IsZero():
		s.learn(m.value.Terms.Like, s.now().Sub(m.value.Started))
	}
}

// endedOf is ended of a member of a gang.
func (s *runtimes) endedOf(m *member, left map[string]*member, like string, ran, well bool) {
	e := s.ending[m.workload]
	if e == nil && ran {
		e = &ending{like: like}
		s.ending[m.workload] = e
	}
	if e == nil {
		return
	}
	e.failed = e.failed || ran && !well
	e.begin(m)
	//archtest:any-order the earliest start counts
	for _, other := range left {
		e.begin(other)
	}
	if len(left) > 0 {
		return
	}
	delete(s.ending, m.workload)
	if !e.failed && !e.since.IsZero() {
		s.learn(e.like, s.now().Sub(e.since))
	}
}

// begin takes note of when a member got its node.
func (e *ending) begin(m *member) {
	if m.given && !m.value.Started.IsZero() && (e.since.IsZero() || m.value.Started.Before(e.since)) {
		e.since = m.value.Started
	}
}

// learn takes a run time in, and tells the engine once there are enough.
func (s *runtimes) learn(like string, took time.Duration) {
	if like == "" || took < 0 {
		return
	}
	s.clock++
	r := s.of[like]
	if r == nil {
		s.forget()
		r = &runs{}
		s.of[like] = r
	}
	r.add(took, s.clock)
	if len(r.took) >= estimateLeast {
		v := r.estimate(like)
		v.Version = s.out.derived.next()
		s.out.put(engine.Change{RunTimeEstimate: &v})
	}
}

// forget makes room for a kind: that goes of which nothing ended for longest.
func (s *runtimes) forget() {
	if len(s.of) < estimateKinds {
		return
	}
	oldest := ""
	//archtest:any-order the oldest goes, and of equals the one with the least name
	for like, r := range s.of {
		if oldest == "" || cmp.Or(cmp.Compare(r.at, s.of[oldest].at), cmp.Compare(like, oldest)) < 0 {
			oldest = like
		}
	}
	if len(s.of[oldest].took) >= estimateLeast {
		s.out.drop(engine.KindRunTimeEstimate, oldest, s.out.derived.next())
	}
	delete(s.of, oldest)
}

func (r *runs) add(took time.Duration, at uint64) {
	r.at = at
	if len(r.took) < estimateRuns {
		r.took = append(r.took, took)
		return
	}
	r.took[r.next] = took
	r.next = (r.next + 1) % estimateRuns
}

// estimate is what the run times say: the ones below which a tenth, half and nine tenths of them are.
func (r *runs) estimate(like string) engine.RunTimeEstimate {
	s := slices.Sorted(slices.Values(r.took))
	n := len(s)
	return engine.RunTimeEstimate{Like: like, Count: n, Short: s[n/10], Median: s[n/2], Long: s[(9*n+9)/10-1]}
}
