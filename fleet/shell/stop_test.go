package shell

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/clock"
)

// endings are scripts that never end by themselves, each waiting or working differently.
var endings = []string{
	"sleep 1000", "sleep infinity", "exec sleep 1000", "sh -c 'sleep 1000'", "(sleep 1000)", "x=$(sleep 1000)",
	"while :; do :; done", "for ((;;)); do ((i++)); done", "until false; do x=1; done", "f() { while true; do f2; done; }; f2() { :; }; f",
	"while :; do sleep 0.001; done", "while :; do echo x; done >/dev/null", "yes >/dev/null", "yes | cat | cat >/dev/null",
	"read x", "while read x; do :; done", "cat", "cat | cat", "sort", "xargs echo", "head -c 1", "mapfile a", "tee /dev/null", "tr a b",
	"sleep 1000 & wait", "sleep 1000 & wait $!", "sleep 1000 | cat", "cat | sleep 1000", "wait; sleep 1000 & fg",
	"tail -f /etc/passwd", "nc -l -p 80", "httpd -f -p 80", "httpd -p 80; curl localhost:80 >/dev/null; sleep 1000",
	"timeout 1000 sleep 1000", "env sleep 1000", "nohup sleep 1000", "time sleep 1000", "seq 1 1000000000 >/dev/null",
	"trap 'sleep 1000' EXIT; sleep 1000", "trap 'echo never' ERR; sleep 1000", "sleep 1000 <<< x", "{ sleep 1000; } 2>&1",
	"select x in a; do :; done", "read -t 1000 x", "while sleep 0; do :; done", "cat /dev/tty", ":(){ :|:& };:; sleep 1000",
}

// TestStop checks that whatever a script does, it ends within 50 ms of its context.
func TestStop(t *testing.T) {
	for _, script := range endings {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stopScript(t, script, Terminate, 143) })
		})
	}
	for cause, status := range map[error]int{Kill: 137, Interrupt: 130, errors.New("pod deleted"): 137} {
		t.Run(cause.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stopScript(t, "sleep 1000 | cat", cause, status) })
		})
	}
}

func stopScript(t *testing.T, script string, cause error, want int) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stdin, typing := io.Pipe()
	c := newContainer()
	c.state.throttle.take(int(burst/stepTime), time.Now()) // a busy loop is to be found pausing
	ended := make(chan int)
	go func() {
		ended <- Run(ctx, &Process{Args: []string{"sh", "-c", script}, Stdin: stdin, Container: c})
	}()
	time.Sleep(300 * time.Millisecond)
	cancel(cause)
	at := time.Now()
	status := <-ended
	if took := time.Since(at); took > 50*time.Millisecond {
		t.Errorf("%q took %v to end", script, took)
	}
	if status != want {
		t.Errorf("%q with %v: status %d, want %d", script, cause, status, want)
	}
	typing.Close()
	synctest.Wait()
}

func TestStopBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(Terminate)
	if got := Run(ctx, &Process{Args: []string{"sleep", "10"}, Container: newContainer()}); got != 143 {
		t.Errorf("status %d, want 143", got)
	}
}

// played is what came of a script that was sent signals.
type played struct {
	Stdout string
	Status int
	After  time.Duration // from the start to the end
}

// play runs a script and sends it signals at times from its start.
func play(t *testing.T, script string, signals map[time.Duration]Signal) (got played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, send := WithSignals(t.Context())
		defer send(Kill)
		for at, sig := range signals {
			time.AfterFunc(at, func() { send(sig) })
		}
		var out output
		start := time.Now()
		status := Run(ctx, &Process{Args: []string{"sh", "-c", script}, Stdout: &out, Container: newContainer()})
		got = played{out.String(), status, time.Since(start)}
	})
	return got
}

func TestTraps(t *testing.T) {
	const s = time.Second
	term := map[time.Duration]Signal{s: Terminate}
	for _, tc := range []struct {
		name, script string
		signals      map[time.Duration]Signal
		want         played
	}{
		{"runs and exits", `trap 'echo bye; exit 3' TERM; sleep 100`, term, played{"bye\n", 3, s}},
		{"runs and goes on", `trap 'echo bye' TERM; sleep 100; echo after $?`, term, played{"bye\nafter 143\n", 0, s}},
		{"takes its time", `trap 'echo draining; sleep 5; echo done; exit 0' TERM; while :; do sleep 1; done`, term, played{"draining\ndone\n", 0, 6 * s}},
		{"sees the state", `n=0; trap 'echo n=$n; exit' TERM; while :; do n=$((n+1)); sleep 0.3; done`, term, played{"n=4\n", 0, s}},
		{"in a function's loop", `stop=; trap 'stop=1' TERM; f() { while [ -z "$stop" ]; do sleep 10; done; }; f; echo stopped`, term, played{"stopped\n", 0, s}},
		{"interrupts wait", `trap 'kill $!; wait $!; exit 7' TERM; sleep 100 & wait`, term, played{"", 7, s}},
		{"interrupts a pipeline", `trap 'echo bye; exit 1' TERM; sleep 100 | cat`, term, played{"bye\n", 1, s}},
		{"interrupts a substitution", `trap 'echo bye; exit 1' TERM; x=$(sleep 100)`, term, played{"bye\n", 1, s}},
		{"ignored until killed", `trap '' TERM; sleep 100; echo no`, map[time.Duration]Signal{s: Terminate, 31 * s: Kill}, played{"", 137, 31 * s}},
		{"stuck until killed", `trap 'echo stuck; sleep 1000' TERM; sleep 100`, map[time.Duration]Signal{s: Terminate, 11 * s: Kill}, played{"stuck\n", 137, 11 * s}},
		{"INT", `trap 'echo int; exit 2' INT; sleep 100`, map[time.Duration]Signal{s: Interrupt}, played{"int\n", 2, s}},
		{"EXIT after TERM trap", `trap 'echo exit' EXIT; trap 'echo term; exit 4' TERM; sleep 100`, term, played{"term\nexit\n", 4, s}},
		{"none", `sleep 100; echo no`, term, played{"", 143, s}},
		{"not inherited by commands", `trap 'echo outer; exit 5' TERM; sh -c 'sleep 100'`, term, played{"outer\n", 5, s}},
		{"lost by exec", `trap 'echo no' TERM; exec sleep 100`, term, played{"", 143, s}},
		{"of the command that exec starts", `exec sh -c "trap 'echo inner; exit 6' TERM; sleep 100"`, term, played{"inner\n", 6, s}},
		{"reset", `trap 'echo no' TERM; trap - TERM; sleep 100`, term, played{"", 143, s}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, play(t, tc.script, tc.signals)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTrapGrace checks that a trap ends even if nobody can send Kill.
func TestTrapGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(Terminate) })
		start := time.Now()
		status := Run(ctx, &Process{Args: []string{"sh", "-c", "trap 'sleep 1000' TERM; sleep 1000"}, Container: newContainer()})
		if took := time.Since(start); status != 137 || took != time.Second+trapGrace {
			t.Errorf("status %d after %v", status, took)
		}
	})
}

// TestKillFromExec checks that a second process of the container can end the first.
func TestKillFromExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer()
		ended := make(chan int)
		go func() { ended <- Run(t.Context(), &Process{Args: []string{"sleep", "1000"}, Container: c}) }()
		synctest.Wait()
		got := runIn(t, c, "", "sh", "-c", "echo $$; kill -TERM 1")
		if diff := cmp.Diff(result{Stdout: "2\n"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if status := <-ended; status != 143 {
			t.Errorf("status %d, want 143", status)
		}
	})
}

// TestSleepFollowsTheClock checks that a fast fleet sleeps less.
func TestSleepFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer()
		c.Clock = clock.Clock{Speed: 60}
		start := time.Now()
		var out output
		const script = "sleep 1m; sleep 0.5h; sleep 1 1s; sleep 58.5; echo $SECONDS; timeout 1m sleep 1d; echo $?"
		Run(t.Context(), &Process{Args: []string{"sh", "-c", script}, Stdout: &out, Container: c})
		if got := out.String(); got != "1920\n124\n" {
			t.Errorf("printed %q", got)
		}
		if took := time.Since(start); took.Round(time.Second) != 33*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestOutputIsLive checks that a loop's lines can be seen when they are written.
func TestOutputIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		go Run(t.Context(), &Process{Args: []string{"sh", "-c", "for i in 1 2 3; do echo step $i; sleep 1; done | cat | grep ."}, Stdout: &out, Container: newContainer()})
		for i, want := range []string{"step 1\n", "step 1\nstep 2\n", "step 1\nstep 2\nstep 3\n"} {
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("after %d s: %q, want %q", i, got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestThrottle checks what a busy container may do: its burst, then 5,000 steps a second.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds = 10
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var out output
		Run(ctx, &Process{Args: []string{"sh", "-c", "while :; do echo; done"}, Stdout: &out, Container: newContainer()})
		turns := strings.Count(out.String(), "\n")
		const steps = 3 // the loop, its condition and its command
		most := int((burst + seconds*time.Second) / stepTime / steps)
		if turns > most+100 || turns < most*9/10 {
			t.Errorf("%d turns, want at most and about %d", turns, most)
		}
	})
}
