package chromium

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
)

// trace is what Chromium traced, as far as frames are made of it.
type trace struct {
	mu     sync.Mutex
	tasks  []traced
	begins []traced // of frames: the page's scripts are called for one, on its main thread
}

type thread struct{ process, thread int64 }

type traced struct {
	thread thread
	at     float64 // microseconds
	spent  float64 // of the processor; of the wall where that is not told
}

func (t *trace) add(text []byte) {
	var e struct {
		Name     string
		Pid, Tid int64
		Ts       float64
		Dur      float64
		Tdur     float64
	}
	if json.Unmarshal(text, &e) != nil {
		return // an event in another form
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := traced{thread: thread{e.Pid, e.Tid}, at: e.Ts, spent: cmp.Or(e.Tdur, e.Dur)}
	switch e.Name {
	case "RunTask":
		t.tasks = append(t.tasks, at)
	case "FireAnimationFrame":
		t.begins = append(t.begins, at)
	}
}

// frames add up the tasks from the beginning of a frame to that of the next, in milliseconds.
func (t *trace) frames() (out []float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byTime := func(a, b traced) int { return cmp.Compare(a.at, b.at) }
	slices.SortFunc(t.begins, byTime)
	slices.SortFunc(t.tasks, byTime)
	for i, b := range t.begins {
		sum := 0.0
		for _, task := range t.tasks {
			// The task that a frame begins in began before it.
			if task.thread == b.thread && task.at+task.spent >= b.at && (i+1 == len(t.begins) || task.at+task.spent < t.begins[i+1].at) {
				sum += task.spent
			}
		}
		out = append(out, sum/1000)
	}
	return out
}
