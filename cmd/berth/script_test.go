package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-dev/berth/internal/intruder"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"berth": berthAndPage})
}

// TestScripts plays the stories in testdata/script against real clusters, through the
// command line alone. With -short a third of them is drawn.
func TestScripts(t *testing.T) {
	notes := t.TempDir()
	stories, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(stories) == 0 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	testscript.Run(t, testscript.Params{
		Files:               drawn(stories, 3),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			e.Setenv("EXAMPLES", examples)
			built, err := filepath.Abs("../../bin") // berth-operators, where it was built
			if err != nil {
				return err
			}
			e.Setenv("PATH", e.Getenv("PATH")+string(os.PathListSeparator)+built)
			dir := filepath.Join(e.WorkDir, "clusters")
			e.Setenv("BERTH_HOME", dir)
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Defer(func() { stopAll(dir) })
			e.Defer(heldToPage(e, notes))
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"until":  until,
			"fetch":  fetch,
			"kill9":  kill9,
			"crash":  crash,
			"closed": closed,
			"deaf":   deaf,
			"slay":   slay,
			"gone":   gone,

			"interrupt": interrupt,
		},
	})
}

// patience is how long `until` tries. Everything these stories wait for takes seconds on
// an idle machine; CI's is neither idle nor fast.
const patience = 3 * time.Minute

// until PATTERN COMMAND... runs the command until its output matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: until PATTERN COMMAND...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = environ(ts)
		out, _ = cmd.CombinedOutput() // a command that fails may succeed later
		if want.Match(out) {
			if _, ok := parseAsked(args[2:]); ok && args[1] == "berth" {
				again := exec.Command(args[1], args[2:]...)
				again.Dir, again.Env = cmd.Dir, append(cmd.Env, agreesEnv+"="+ts.Getenv(agreesEnv))
				_ = again.Run() // it says what it said, and the page is compared
			}
			return
		}
	}
	ts.Fatalf("%v never printed %q; last output:\n%s", args[1:], args[0], out)
}

// fetch PATTERN URL asks until the answer matches.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: fetch PATTERN URL")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	var body []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		resp, err := http.Get(args[1])
		if err != nil {
			continue
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if want.Match(body) {
			return
		}
	}
	ts.Fatalf("%s never answered %q; last answer:\n%s", args[1], args[0], body)
}

func environ(ts *testscript.TestScript) []string {
	env := os.Environ()
	for _, name := range []string{"BERTH_HOME", "HOME", "PATH", "KUBECONFIG", "EXAMPLES"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// deaf NAME sets a variable to a port on which connections are taken and never answered.
func deaf(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: deaf NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			defer c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Setenv(args[0], port)
}

// kill9 NAME kills the process of a cluster, as a power cut would.
func kill9(ts *testscript.TestScript, neg bool, args []string) {
	end(ts, neg, args, syscall.SIGKILL)
}

// crash NAME makes the process of a cluster end as one that panics: Go writes the stacks of its goroutines.
func crash(ts *testscript.TestScript, neg bool, args []string) {
	end(ts, neg, args, syscall.SIGABRT)
}

func end(ts *testscript.TestScript, neg bool, args []string, how syscall.Signal) {
	dir := filepath.Join(ts.Getenv("BERTH_HOME"), args[0])
	pid := holder(dir)
	if pid == 0 || neg {
		ts.Fatalf("no process holds %s", dir)
	}
	ts.Check(syscall.Kill(pid, how))
	for syscall.Kill(pid, 0) == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// slay PROGRAM NAME kills the child of a cluster's process that runs the program.
func slay(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 || neg {
		ts.Fatalf("usage: slay PROGRAM NAME")
	}
	pid := childOf(holder(filepath.Join(ts.Getenv("BERTH_HOME"), args[1])), args[0])
	if pid == 0 {
		ts.Fatalf("cluster %s has no child that runs %s", args[1], args[0])
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

// gone PROGRAM waits until no process that this story started runs the program.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: gone PROGRAM")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		// Its arguments name a file in the data folder of this story.
		if exec.Command("pgrep", "-f", args[0]+".*"+regexp.QuoteMeta(ts.Getenv("BERTH_HOME"))).Run() != nil {
			return
		}
	}
	ts.Fatalf("%s still runs", args[0])
}

// childOf is the process below pid that runs the program; 0: none.
func childOf(pid int, program string) int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid), "-f", program).Output()
	if err != nil {
		return 0
	}
	child, _ := strconv.Atoi(string(bytes.TrimSpace(out)))
	return child
}

// closed NAME tries every socket on which the process of a cluster can be reached as another user of this machine.
func closed(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: closed NAME")
	}
	pid := holder(filepath.Join(ts.Getenv("BERTH_HOME"), args[0]))
	sockets, err := intruder.Sockets(pid)
	ts.Check(err)
	if len(sockets) == 0 {
		ts.Fatalf("process %d listens nowhere", pid)
	}
	if os.Geteuid() != 0 {
		ts.Logf("not tried as another user: only root can become one")
	}
	var open []error
	for _, s := range sockets {
		ts.Logf("%s", s)
		open = append(open, intruder.Rules(s, os.Geteuid()))
		if os.Geteuid() == 0 {
			open = append(open, intruder.Try(context.Background(), s, intruder.Nobody))
		}
	}
	ts.Check(errors.Join(open...))
}

// interrupt PATTERN COMMAND... runs the command and presses Ctrl-C as soon as its output matches. The command must end
// by itself, without the stacks of a crash.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: interrupt PATTERN COMMAND...")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	r, w, err := os.Pipe()
	ts.Check(err)
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), environ(ts), w, w
	ts.Check(cmd.Start())
	w.Close()
	limit := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer limit.Stop()
	var out []byte
	pressed := false
	for b := make([]byte, 4096); ; {
		if !pressed && want.Match(out) {
			pressed = true
			ts.Check(cmd.Process.Signal(os.Interrupt))
		}
		n, err := r.Read(b)
		out = append(out, b[:n]...)
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	ts.Logf("%s%v", out, err)
	ended := cmd.ProcessState.Sys().(syscall.WaitStatus)
	early := ended.Signaled() && ended.Signal() == syscall.SIGINT // before there was anything to put in order
	if !pressed || bytes.Contains(out, []byte("goroutine ")) || !early && ended.ExitStatus() != 1 {
		ts.Fatalf("%v, interrupted at %q: %v", args[1:], args[0], err)
	}
}

func holder(dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return 0
	}
	return pid
}

// stopAll leaves no process behind, whatever the story did.
func stopAll(root string) {
	dirs, _ := filepath.Glob(filepath.Join(root, "*"))
	for _, d := range dirs {
		if pid := holder(d); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
