package shell

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// attacks are scripts that hold memory, each in another place. None may take this process with it: they end by
// themselves, are killed with 137, or go on within their budget until they are stopped.
var attacks = []string{
	// as found
	`yes | grep -B 999999999 z`,
	`echo aaaaaaaaaa | sed 's/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/;s/.*/&&&&&&&&&&/'`,
	`s=; for i in $(seq 3000); do s="$s$(printf '\u0100-\uffff')"; done; echo x | tr "$s" a`,
	`head -c 50000000 /dev/zero | tr '\0' '\n' > /tmp/f; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do tac /tmp/f | sleep 5 & done; wait`,
	`yes '' | head -c 3000000`,
	`while cat /dev/zero >> /tmp/f; do :; done`,
	`l=$(seq -s, 1 2 200000); head -c 900000 /dev/zero | tr '\0' x | cut -c "$l" | wc -c`,
	// variables, arrays, expansions
	`x=x; while :; do x=$x$x; done`, `a=(x); while :; do a+=("${a[@]}"); done`, `declare -A m; while :; do m[$((i++))]=$i; done`,
	`x=$(head -c 1000000 /dev/zero | tr '\0' a); y=${x//a/aaaa}; y=${y//a/aaaa}; y=${y//a/aaaa}`, `x=$(head -c 3000000 /dev/zero | tr '\0' a); echo ${x//?/b} | wc -c`,
	`while :; do eval "v$((i++))=x; export v$i=$i"; done`, `x=$(head -c 4000000 /dev/zero | tr '\0' ' '); set -- $x a$x; echo $# $x`,
	`set -- a; while :; do set -- "$@" "$@"; done`, `x=$(yes)`, `x=$(yes | tr -d '\n')`, `x=$(head -c 3000000 /dev/zero | tr '\0' a); echo "$x$x$x$x$x$x$x$x$x$x$x$x"`,
	`y=$(head -c 3000000 /dev/zero | tr '\0' a); echo "${x:=$y}$x$x$x$x$x$x$x$x$x$x$x$x$x$x"`, `echo {1..99999999}`, `echo {1..100}{1..100}{1..100}{1..100}`,
	`x=$(yes a | head -c 4000000); for i in $x; do :; done`, `x=$(head -c 4000000 /dev/zero | tr '\0' a); echo ${x@Q} ${x^^} ${x:1:3999999} | wc -c`,
	`cd /tmp; mkdir -p a/b/c/d/e/f/g; while touch $((i++)) a/b/c/d/e/f/g/$i; do :; done; echo * */* a/*/*/*/*/*/*/* | wc -c`,
	// printing
	`printf '%*d' 999999999 1`, `f=$(yes %4096d | head -c 1000000 | tr -d '\n'); printf "$f"`, `x=$(head -c 4000000 /dev/zero | tr '\0' '\1'); printf %q%q%q "$x" "$x" "$x"`,
	`printf -v x '%4096s' $(seq 10000); printf '%s' "$x$x$x"`, `date +$(yes %c | head -c 3000000 | tr -d '\n')`, `touch /tmp/f; stat -c "$(yes %n | head -c 3000000 | tr -d '\n')" /tmp/f`,
	`seq 999999999 | sort`, `seq -w 1 $(head -c 500000 /dev/zero | tr '\0' 9) | head -c 100000000`, `yes "$(head -c 4000000 /dev/zero | tr '\0' x)" | cat | cat | cat | sort`,
	// readers
	`yes | tr -d '\n' | read x`, `yes | tr -d '\n' | sort`, `yes | sort`, `yes | tac`, `yes | tail -n 999999999`, `yes | tail -c 999999999`, `yes | head -n -999999999`,
	`yes | mapfile a`, `yes | tr -d '\n' | mapfile a`, `yes | xargs -n 99999999`, `yes | tr -d '\n' | xargs`, `yes | xargs -I {} echo {}{}{}{}{}`, `yes | wc`,
	`yes | uniq -c`, `yes | base64 -w 0 | base64 -d | wc -c`, `head -c 1000000000000 /dev/zero | cat | cat`, `yes | rev`, `yes | tr -d '\n' | rev`, `yes | sed '$!d'`,
	`yes | sed = | sed p | sed p | tail -n 100000000`, `yes | tee /tmp/a /tmp/b /tmp/c`, `yes | md5sum`, `yes | while read x; do y=$y$x; done`, `yes | sed -n '/y/,/z/p;a x' | tac`,
	// expressions
	`yes | grep -E '((a{100}){100}){100}'`, `head -c 900000 /dev/zero | tr '\0' a | grep -E '(a+a+)+b'`, `head -c 900000 /dev/zero | tr '\0' a | sed -E 's/a+b|a/x/g' | wc -c`,
	`grep -E "$(yes '\pL' | head -c 15000 | tr -d '\n')" /etc/passwd`, `x=$(head -c 3000000 /dev/zero | tr '\0' a); case $x in *a*a*a*a*b) ;; esac; [[ $x =~ (a|aa)+b ]]; echo ${x##*a*b*c}`,
	`sed "$(yes p | head -n 400000)" /etc/passwd`, `find / -name "$(yes '*a' | head -c 10000 | tr -d '\n')"`, `sed "$(yes 's/a/b/' | head -n 20000)" /etc/passwd`,
	// here-documents, files
	`x=$(head -c 4000000 /dev/zero | tr '\0' x); while :; do sleep 100 <<< "$x" & done`, `x=$(head -c 4000000 /dev/zero | tr '\0' x); f() { f <<< "$x$x"; }; f`,
	`cd /tmp; while :; do exec 3> f; head -c 60000000 /dev/zero >&3; rm f; sleep 100 3>&3 & done`, `cd /tmp; while ln -s $(head -c 4000 /dev/zero | tr '\0' x) l$((i++)); do :; done`,
	`cd /tmp; while mkdir $(printf %0200d $((i++))); do :; done; ls -lR / | wc -c; find / | wc -c; find / -delete`, `cd /tmp; while mkdir d; do cd d; done 2>/dev/null; find / | wc -c; tar c / | wc -c`,
	`cd /tmp; head -c 30000000 /dev/zero > f; tar czf - f f f f f f | tar xzf - -C /tmp; cp f g; cp f h; sed -i s/x/y/ f`, `for i in 1 2 3 4 5 6 7 8; do tar cz / | sleep 100 & done; wait`,
	`cd /tmp; head -c 60000000 /dev/zero > f; for i in $(seq 200); do tail -f f > /dev/null & done; wait`,
	// processes
	`while :; do sleep 1000 & done`, `while :; do true & done`, `:(){ :|:& };:; sleep 5`, `f() { f | f & }; f; sleep 5`, `f() { x=$1$1; f "$x"; }; f aaaaaaaa`,
	`f() { local x=$(head -c 100000 /dev/zero | tr '\0' x); f; }; f`, `f() { $(f); }; f`, `env $(yes env | head -n 500000) true`, `x=$(head -c 2000000 /dev/zero | tr '\0' x); while :; do (sleep 100; echo $x) & done`,
	`export x=$(head -c 4000000 /dev/zero | tr '\0' x); f() { sh -c 'f() { sh -c "sleep 9; $0" & sh -c "sleep 9; $0" & }; f; wait' "$0"; }; f`,
	`while :; do eval "f$((i++))() { : a b c d e f g h; }"; done`, `eval "{ $(yes 'a;' | head -c 900000) }"`, `cat <<E | sort | tac
$(yes | head -c 3000000)
$(yes | head -c 3000000)
E`,
	`httpd -p 80 -h /tmp; for i in $(seq 300); do touch /tmp/$i; done; while :; do curl -s localhost/ | sleep 10 & done`, `nc -l -p 80 | sort & while :; do yes | nc localhost 80; done`,
	`head -c 60000000 /dev/zero > /tmp/f; httpd -p 80 -h /tmp; while :; do x=$(curl -s localhost/f); done`,
	`ls $(yes / | head -n 300000) >/dev/null`, `tee $(yes /dev/null | head -n 200000)`, `export $(seq 200000 | sed s/^/v/)`, `env $(seq -f 2>/dev/null; yes a=b | head -n 300000) true`,
	`x=$(head -c 4000000 /dev/zero | tr '\0' x); while :; do cat "$x" 2>&1 | sleep 100 & done`,
	`while :; do pushd /tmp; done > /dev/null`, `while :; do trap "$(head -c 60000 /dev/zero | tr '\0' x)$((i++))" $((i % 60)) ; done`, `select x in $(seq 100000); do :; done`,
	`(((((((((((((((((((((((((((((((yes))))))))))))))))))))))))))))))) | tac`, `getopts $(yes a | head -c 100000 | tr -d '\n') x`,
}

// attack runs a script in a container for at most a while.
func attack(t testing.TB, c *Container, script string, limit time.Duration) (status int) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, Kill)
	defer cancel()
	stdin, typing := io.Pipe()
	defer typing.Close()
	return Run(ctx, &Process{Args: []string{"sh", "-c", script}, Stdin: stdin, Stdout: io.Discard, Stderr: io.Discard, Container: c})
}

// TestAttacks runs each attack alone for a moment: the process must stay small, the attack must end when it is told
// to, and nothing may stay counted after it.
func TestAttacks(t *testing.T) {
	for _, script := range attacks {
		t.Run(fmt.Sprintf("%.60s", script), func(t *testing.T) {
			c := newContainer()
			c.Budget = NewBudget()
			peak := watchHeap(t)
			const limit = 150 * time.Millisecond
			start := time.Now()
			attack(t, c, script, limit)
			if took := time.Since(start); took > limit+4*time.Second {
				t.Errorf("took %v to end", took)
			}
			if most := peak(); most > 4*ContainerMemory {
				t.Errorf("the heap grew by %d MiB", most>>20)
			}
			if used, _ := c.state.budgets.memory.Used(); used != 0 {
				t.Errorf("%d bytes are still counted", used)
			}
		})
	}
}

// watchHeap says by how much the heap grew at most since it was called, with the garbage of GOGC=100.
func watchHeap(t testing.TB) (peak func() int64) {
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	runtime.GC()
	before := heap()
	most := before
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			most = max(most, heap())
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return most - before
	}
}

// hungry draws a script of memory-hungry commands: a source, some filters, and what becomes of the result.
func hungry(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	source := func() string {
		return pick("yes", "yes ''", "seq 99999999", "cat /dev/zero", "cat /dev/urandom", "yes | tr -d '\\n'", "head -c 30000000 /dev/zero | tr '\\0' a",
			"find /", "cat /tmp/*", "tar cz /", "echo {1..16000}", `printf '%04096d' $(seq 5000)`, "yes abcdefgh", "ls -lR /", "env")
	}
	filter := func() string {
		return pick("cat", "tac", "sort", "sort -u", "sort -k 2", "rev", "uniq -c", "tail -n 9999999", "tail -c 99999999", "head -n -9999999", "base64", "base64 -w 0",
			"sed 's/.*/&&&&&&&&/'", "sed 's/./xxxxxxxxxx/g'", "sed -E 's/(.*)/\\1\\1\\1\\1/'", "grep -B 9999999 z", "grep -o .", "grep -v q", "tr a-z A-Z", "tr '\\n' ' '", "tr -d '\\n'",
			"cut -c 1-9", "cut -c "+strings.Repeat("1-3,", 50)+"9-", "xargs", "xargs -n 3", "xargs -I {} echo {}{}{}", "tee /tmp/t", "cat -n", "wc", "sha256sum", "while read x; do echo $x$x; done")
	}
	var b strings.Builder
	pipeline := func() {
		b.WriteString(source())
		for range r.IntN(4) {
			b.WriteString(" | " + filter())
		}
	}
	for range 1 + r.IntN(3) {
		switch r.IntN(6) {
		case 0:
			b.WriteString("x=$(")
			pipeline()
			b.WriteString("); y=$x$x; z=(${x:0:99999}); ")
		case 1:
			b.WriteString("for i in 1 2 3 4 5 6; do ")
			pipeline()
			b.WriteString(" | sleep 3 & done; ")
		case 2:
			pipeline()
			b.WriteString(" > /tmp/f$RANDOM; ")
		case 3:
			pipeline()
			b.WriteString(" | mapfile a; ")
		case 4:
			b.WriteString("cat <<E | sort\n$(")
			pipeline()
			b.WriteString(")\nE\n")
		default:
			pipeline()
			b.WriteString(" | tail -n 1; ")
		}
	}
	return b.String()
}

// TestManyAttackers runs random attacks in many containers that share a budget. The heap must stay within twice the
// budget, which is what the collector lets it grow to, and some slack; and a neighbour that does next to nothing must
// be answered soon.
func TestManyAttackers(t *testing.T) {
	const (
		containers = 24
		memory     = 32 << 20
		storage    = 64 << 20
		slack      = 160 << 20 // goroutines, what is being killed, rounding
		length     = 4 * time.Second
	)
	b := newBudget(memory, storage)
	peak := watchHeap(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), length, Kill)
	defer cancel()
	var running sync.WaitGroup
	var killed atomic.Int64
	for i := range containers {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 13))
			for ctx.Err() == nil {
				c := newContainer()
				c.FS, c.Budget = b.NewFS(), b
				script := hungry(r)
				if Run(ctx, &Process{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard, Container: c}) == 137 && ctx.Err() == nil {
					killed.Add(1)
				}
				c.FS.Discard()
			}
		})
	}
	c := newContainer()
	c.FS, c.Budget = b.NewFS(), b
	var took []time.Duration
	for ctx.Err() == nil {
		start := time.Now()
		var out output
		if status := Run(t.Context(), &Process{Args: []string{"sh", "-c", "echo hello"}, Stdout: &out, Container: c}); status != 0 || out.String() != "hello\n" {
			t.Errorf("the neighbour's echo ended with %d and printed %q", status, out.String())
		}
		took = append(took, time.Since(start))
		time.Sleep(200 * time.Millisecond)
	}
	running.Wait()
	most := peak()
	slices.Sort(took)
	usual, slowest := took[len(took)/2], took[len(took)-1]
	t.Logf("heap grew by %d MiB at most, an echo took %v, the slowest %v, %d were killed", most>>20, usual, slowest, killed.Load())
	if most > 2*(memory+storage)+slack {
		t.Errorf("the heap grew by %d MiB, want at most %d", most>>20, (2*(memory+storage)+slack)>>20)
	}
	if usual > time.Second || slowest > 5*time.Second { // of a machine that other tests use too; alone they are ms
		t.Errorf("an echo took %v, the slowest %v", usual, slowest)
	}
	if used, _ := b.memory.Used(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
	if killed.Load() == 0 {
		t.Error("nobody was killed: the attacks are too weak to show anything")
	}
}

// TestOutOfMemory checks what a process sees that holds too much: 137, a message, and no harm to its container.
func TestOutOfMemory(t *testing.T) {
	c := newContainer()
	var errs output
	told := false
	status := Run(t.Context(), &Process{Args: []string{"sh", "-c", "yes | tac"}, Stderr: &errs, Container: c, OutOfMemory: func() { told = true }})
	if status != 137 || !told || !strings.Contains(errs.String(), "sh: killed: out of memory (this container may hold 64 MiB") {
		t.Errorf("status %d, told %v, stderr %q", status, told, errs.String())
	}
	if got := runIn(t, c, "", "echo", "alive"); got.Stdout != "alive\n" {
		t.Errorf("after it: %+v", got)
	}
}

// TestTheLargestIsKilled checks that a session which holds little outlives one of the same container that holds much.
func TestTheLargestIsKilled(t *testing.T) {
	c := newContainer()
	small := make(chan int, 1)
	go func() {
		small <- Run(t.Context(), &Process{Args: []string{"sh", "-c", "x=small; sleep 1; echo $x | sort | tac"}, Container: c})
	}()
	if got := runIn(t, c, "", "sh", "-c", "yes | tac"); got.Status != 137 {
		t.Errorf("the large one ended with %d", got.Status)
	}
	if status := <-small; status != 0 {
		t.Errorf("the small one ended with %d", status)
	}
}
