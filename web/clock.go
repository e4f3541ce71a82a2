package web

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// clock is the API server's, which the times of all objects go by. That of this process may be hours off: `berth ui` runs on anybody's laptop.
//
// An answer names the second in which it was made (Date), and was made between its request and its arrival. So each answer bounds how far the
// two clocks are apart, and all of them together bound it closer than a second. While they may be equal, ours is taken: it runs evenly.
type clock struct {
	own func() time.Time

	mu          sync.Mutex
	heard       bool
	least, most time.Duration // the API server's clock less ours
}

func newClock() *clock { return &clock{own: time.Now} }

// now is the API server's time; ours before it said anything.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.least <= 0 && c.most >= 0 {
		return c.own()
	}
	return c.own().Add(c.least + (c.most-c.least)/2)
}

// hear takes note of an answer of the second that began at date. One that does not agree with those before means that a clock was set.
func (c *clock) hear(date, asked, came time.Time) {
	least, most := date.Sub(came), date.Add(time.Second).Sub(asked) // dates are of the clock of the day, which can be set
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard && least <= c.most && most >= c.least {
		least, most = max(least, c.least), min(most, c.most)
	}
	c.heard, c.least, c.most = true, least, most
}

// listen has the clock hear all answers to who uses the configuration.
func (c *clock) listen(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return hearing{next, c} })
}

type hearing struct {
	next  http.RoundTripper
	clock *clock
}

func (h hearing) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := h.clock.own()
	answer, err := h.next.RoundTrip(r)
	if err == nil {
		if date, bad := http.ParseTime(answer.Header.Get("Date")); bad == nil {
			h.clock.hear(date, asked, h.clock.own())
		}
	}
	return answer, err
}

// stamp dates an answer by this clock. The page reads it off its first answer.
func (c *clock) stamp(w http.ResponseWriter) {
	w.Header().Set("Date", c.now().UTC().Format(http.TimeFormat))
}
