package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script is a part that ends as it is told to, one end per start, and then runs until it is stopped.
type script struct {
	mu     sync.Mutex
	start  time.Time
	ends   []func() error
	starts []time.Duration
	told   []string
	live   int // how many run at once
}

func (s *script) run(ctx context.Context) error {
	s.mu.Lock()
	n := len(s.starts)
	s.starts = append(s.starts, time.Since(s.start))
	s.live++
	if s.live > 1 {
		panic("two at once")
	}
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.live--; s.mu.Unlock() }()
	if n < len(s.ends) {
		return s.ends[n]()
	}
	<-ctx.Done()
	return nil
}

func (s *script) tell(line string) {
	s.told = append(s.told, fmt.Sprintf("%s %s", time.Since(s.start), line))
}

func TestAPartThatEndsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &script{start: time.Now(), ends: []func() error{
			func() error { return errors.New("no API server") },
			func() error { panic("index out of range") },
			func() error { return nil },
			func() error { time.Sleep(2 * time.Minute); return errors.New("late") },
		}}
		k := keep("the scheduler", s.run, s.tell, slog.New(slog.NewTextHandler(&log, nil)))
		if err := <-k.failed; err == nil || err.Error() != "the scheduler stopped: no API server" {
			t.Errorf("the first end is told as %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		k.stop()
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second, 7*time.Second + 2*time.Minute + time.Second}
		if diff := cmp.Diff(want, s.starts); diff != "" {
			t.Error(diff)
		}
		told := strings.Join(s.told, "\n")
		for _, line := range []string{
			"0s the scheduler stopped: no API server; it starts again in 1s", "1s starting the scheduler again",
			"1s the scheduler stopped: panic: index out of range; it starts again in 2s", "3s the scheduler stopped: it gave no reason; it starts again in 4s",
			"2m7s the scheduler stopped: late; it starts again in 1s",
		} {
			if !strings.Contains(told, line) {
				t.Errorf("people are not told %q:\n%s", line, told)
			}
		}
		if !strings.Contains(log.String(), "keep_test.go") {
			t.Errorf("the log has no stack of the panic:\n%s", log.String())
		}
	})
}

// A cluster that stops does not wait for a part that is down to come back.
func TestAPartThatIsDownIsStoppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{start: time.Now(), ends: []func() error{func() error { return errors.New("no") }}}
		k := keep("the fleet", s.run, s.tell, slog.New(slog.DiscardHandler))
		<-k.failed
		synctest.Wait()
		k.stop()
		if took := time.Since(s.start); took != 0 || len(s.starts) != 1 {
			t.Errorf("it took %s and started %d times", took, len(s.starts))
		}
	})
}
