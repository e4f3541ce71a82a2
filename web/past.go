package web

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/kube/answer"
)

// Bounds on what is remembered. The past is as old as the server and costs the same however old that is: when it is full, every
// two samples become one.
const (
	mostSamples  = 720
	sampleEvery  = 5 * time.Second
	mostMoments  = 500
	mostWaits    = 2000
	mostFollowed = 50_000
)

// sample is the fleet at one time. GPUs are averages once samples were joined.
type sample struct {
	At          int64   `json:"at"` // milliseconds
	Schedulable float64 `json:"schedulable"`
	Allocated   float64 `json:"allocated"` // of those on nodes that take work, and others
	Busy        float64 `json:"busy"`
	Waiting     float64 `json:"waiting"`     // workloads
	WaitingGPUs float64 `json:"waitingGPUs"` // that they ask for
	Preempted   int     `json:"preempted"`   // workloads that were told to give way since the sample before
}

// moment is something that happened to a workload, as the page saw it.
type moment struct {
	At    int64  `json:"at"`
	What  string `json:"what"` // waits, starts, gives way, ends
	Work  string `json:"work"`
	Title string `json:"title"`
	GPUs  int64  `json:"gpus"`
	Queue string `json:"queue,omitempty"`
	Text  string `json:"text,omitempty"`
}

// past is what the server has seen since it runs. It is kept in memory alone.
type past struct {
	mu      sync.Mutex
	every   time.Duration
	samples []sample
	latest  sample // counted, not kept yet
	moments []moment
	waits   []float64 // seconds that workloads waited which have started since, the latest
	known   map[string]followed
	begun   bool
}

type followed struct {
	state    answer.State
	evicting bool
	title    string
	gpus     int64
	queue    string
	cause    string
}

func newPast() *past { return &past{every: sampleEvery, known: make(map[string]followed)} }

// sum notes the fleet in numbers.
func (p *past) sum(t total) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest.Schedulable, p.latest.Allocated, p.latest.Busy = float64(t.Reached["schedulable"]), float64(t.Reached["allocated"]), float64(t.Reached["busy"])
}

// tick keeps a sample where it is time for one.
func (p *past) tick(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.samples); n > 0 && now.Sub(time.UnixMilli(p.samples[n-1].At)) < p.every && !now.Before(time.UnixMilli(p.samples[n-1].At)) {
		return
	}
	p.latest.At = now.UnixMilli()
	p.samples = append(p.samples, p.latest)
	p.latest.Preempted = 0
	if len(p.samples) < mostSamples {
		return
	}
	joined := p.samples[:0]
	for i := 0; i+1 < len(p.samples); i += 2 {
		a, b := p.samples[i], p.samples[i+1]
		joined = append(joined, sample{
			At: b.At, Schedulable: (a.Schedulable + b.Schedulable) / 2, Allocated: (a.Allocated + b.Allocated) / 2, Busy: (a.Busy + b.Busy) / 2,
			Waiting: (a.Waiting + b.Waiting) / 2, WaitingGPUs: (a.WaitingGPUs + b.WaitingGPUs) / 2, Preempted: a.Preempted + b.Preempted,
		})
	}
	p.samples = joined
	p.every *= 2
}

// line follows the workloads from one answer of the scheduler to the next.
func (p *past) line(now time.Time, list answer.WorkloadList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[string]followed, len(list.Items))
	p.latest.Waiting, p.latest.WaitingGPUs = 0, 0
	for i := range list.Items {
		w := &list.Items[i]
		if w.State == answer.Waiting {
			p.latest.Waiting++
			p.latest.WaitingGPUs += float64(w.GPUs)
		}
		if len(seen) < mostFollowed {
			key := w.Namespace + "/" + w.Name
			seen[key] = followed{w.State, w.Evicting != nil, w.Reference().Title(), w.GPUs, w.Queue, string(w.Cause)}
			p.follow(now, key, w, seen[key])
		}
	}
	for key, was := range p.known {
		if _, ok := seen[key]; !ok {
			p.happen(moment{At: now.UnixMilli(), What: "ends", Work: key, Title: was.title, GPUs: was.gpus, Queue: was.queue})
		}
	}
	p.known, p.begun = seen, true
}

func (p *past) follow(now time.Time, key string, w *answer.Workload, is followed) {
	was, ok := p.known[key]
	m := moment{At: now.UnixMilli(), Work: key, Title: is.title, GPUs: is.gpus, Queue: is.queue}
	if is.evicting && !was.evicting {
		m.What, m.Text = "gives way", w.Evicting.Cause
		p.latest.Preempted++
		p.happen(m)
	}
	started := is.state != answer.Waiting
	switch {
	case !p.begun: // what was so before the page looked did not happen now
	case started && (!ok || was.state == answer.Waiting):
		m.What = "starts"
		p.happen(m)
		if waited := now.Sub(w.CreationTimestamp.Time).Seconds(); waited >= 0 && !w.CreationTimestamp.IsZero() {
			p.waits = append(p.waits, waited)
			p.waits = p.waits[max(0, len(p.waits)-mostWaits):]
		}
	case !started && (!ok || was.state != is.state || was.cause != is.cause):
		m.What, m.Text = "waits", w.Sentence
		p.happen(m)
	}
}

func (p *past) happen(m moment) {
	p.moments = append(p.moments, m)
	p.moments = p.moments[max(0, len(p.moments)-mostMoments):]
}

// history is the past as the page shows it, the latest moments first.
type history struct {
	Every   int64    `json:"every"` // milliseconds between samples
	Samples []sample `json:"samples"`
	Moments []moment `json:"moments"`
	// Waits are how many seconds workloads waited that started while the server ran: how many, half of them less than, nineteen in
	// twenty less than.
	Waits struct {
		N   int     `json:"n"`
		P50 float64 `json:"p50"`
		P95 float64 `json:"p95"`
	} `json:"waits"`
}

func (p *past) history() (h history) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h.Every, h.Samples, h.Moments = p.every.Milliseconds(), append([]sample{}, p.samples...), append([]moment{}, p.moments...)
	slices.Reverse(h.Moments)
	waits := slices.Sorted(slices.Values(p.waits))
	if h.Waits.N = len(waits); len(waits) > 0 {
		h.Waits.P50, h.Waits.P95 = waits[(len(waits)-1)/2], waits[(len(waits)-1)*95/100]
	}
	return h
}

// cut is the past without what a viewer may not read: workloads of other namespaces, and nodes in sentences.
func (h history) cut(r answer.Rights) history {
	h.Moments = slices.DeleteFunc(h.Moments, func(m moment) bool { return !r.Sees(spaceOf(m.Work)) })
	for i := range h.Moments {
		if !r.Nodes || !r.Pods {
			h.Moments[i].Text = ""
		}
	}
	return h
}

// spaceOf is the namespace of a key.
func spaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
