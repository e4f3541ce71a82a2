package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// clients are the ways in which an API server, or who stands behind it, may ask.
var clients = map[string]func(s *service, at *url.URL) (remotecommand.Executor, error){
	"SPDY": func(s *service, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(s.config, "POST", at)
	},
	"WebSocket": func(s *service, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(s.config, "GET", at.String(), "v4.channel.k8s.io")
	},
	// kubectl's own: the newest WebSocket protocol, which is refused, and then SPDY.
	"kubectl": func(s *service, at *url.URL) (remotecommand.Executor, error) {
		modern, err := remotecommand.NewWebSocketExecutor(s.config, "GET", at.String())
		if err != nil {
			return nil, err
		}
		old, err := remotecommand.NewSPDYExecutor(s.config, "POST", at)
		if err != nil {
			return nil, err
		}
		return remotecommand.NewFallbackExecutor(modern, old, func(error) bool { return true })
	},
}

func eachClient(t *testing.T, f func(t *testing.T, open func(s *service, path, query string) remotecommand.Executor)) {
	for name, dial := range clients {
		t.Run(name, func(t *testing.T) {
			f(t, func(s *service, path, query string) remotecommand.Executor {
				t.Helper()
				values, err := url.ParseQuery(query)
				if err != nil {
					t.Fatal(err)
				}
				executor, err := dial(s, s.url(path, values))
				if err != nil {
					t.Fatal(err)
				}
				return executor
			})
		})
	}
}

func TestExecCarriesStreamsAndExitCode(t *testing.T) {
	type call struct {
		Ref Ref
		Cmd []string
		TTY bool
		In  string
	}
	var got call
	s := serve(t, &fake{exec: func(_ context.Context, ref Ref, cmd []string, s Streams) (int, error) {
		line := make([]byte, 5)
		if _, err := io.ReadFull(s.Stdin, line); err != nil {
			return 0, err
		}
		got = call{ref, cmd, s.TTY, string(line)}
		io.WriteString(s.Stdout, "to stdout")
		io.WriteString(s.Stderr, "to stderr")
		return 42, nil
	}})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		var out, errOut bytes.Buffer
		err := open(s, "/exec/ns/p/uid-1/c", "command=sh&command=-c&command=a%20b&input=1&output=1&error=1").
			StreamWithContext(t.Context(), remotecommand.StreamOptions{
				Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errOut,
			})
		var exit exec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 42 {
			t.Errorf("error %v, want exit code 42", err)
		}
		if out.String() != "to stdout" || errOut.String() != "to stderr" {
			t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
		}
		want := call{Ref{Namespace: "ns", Pod: "p", Container: "c", UID: "uid-1"}, []string{"sh", "-c", "a b"}, false, "input"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("call (-want +got):\n%s", diff)
		}
	})
}

// Who does not ask for input gets none to read and nothing to close; what nobody reads is lost.
func TestExecWithoutInput(t *testing.T) {
	s := serve(t, &fake{exec: func(_ context.Context, _ Ref, _ []string, s Streams) (int, error) {
		if s.Stdin != nil || s.Resize != nil {
			return 1, nil
		}
		io.WriteString(s.Stderr, "nobody reads this")
		io.WriteString(s.Stdout, "done")
		return 0, nil
	}})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		var out bytes.Buffer
		err := open(s, "/exec/ns/p/c", "command=true&output=1").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out})
		if err != nil || out.String() != "done" {
			t.Errorf("error %v, stdout %q", err, out.String())
		}
	})
}

func TestExecThatCannotRun(t *testing.T) {
	s := serve(t, &fake{exec: func(context.Context, Ref, []string, Streams) (int, error) {
		return 0, errors.New("container has no rootfs")
	}})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		err := open(s, "/exec/ns/p/c", "command=true&output=1").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "container has no rootfs") {
			t.Errorf("error %v", err)
		}
	})
}

// What is not there is refused before there is a stream.
func TestCheckRefusesStreams(t *testing.T) {
	s := serve(t, &fake{check: func(ref Ref) error {
		if ref.Pod == "gone" {
			return NotFound("pod does not exist")
		}
		return BadRequest(`container not found ("` + ref.Container + `")`)
	}})
	tests := []struct {
		path   string
		status int
		body   string
	}{
		{"/exec/ns/gone/c", 404, "pod does not exist"},
		{"/exec/ns/p/c", 400, `container not found ("c")`},
		{"/attach/ns/gone/c", 404, "pod does not exist"},
		{"/portForward/ns/gone", 404, "pod does not exist"},
	}
	for _, test := range tests {
		if status, body := s.get(t, test.path, url.Values{"command": {"id"}, "output": {"1"}}); status != test.status || body != test.body {
			t.Errorf("%s: %d %q, want %d %q", test.path, status, body, test.status, test.body)
		}
	}
	executor, err := remotecommand.NewSPDYExecutor(s.config, "POST", s.url("/exec/ns/gone/c", url.Values{"command": {"id"}, "output": {"1"}}))
	if err != nil {
		t.Fatal(err)
	}
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "pod does not exist") {
		t.Errorf("client-go says %v", err)
	}
}

// sizes is a terminal that is resized once and then left alone.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestAttachWithTerminal(t *testing.T) {
	s := serve(t, &fake{attach: func(_ context.Context, ref Ref, s Streams) error {
		size := <-s.Resize
		if !s.TTY || ref.Container != "c" || size.Width != 80 || size.Height != 24 {
			return errors.New("not a terminal of 80x24")
		}
		io.WriteString(s.Stdout, "one ")
		_, err := io.WriteString(s.Stderr, "stream")
		return err
	}})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		terminal := make(sizes, 1)
		terminal <- remotecommand.TerminalSize{Width: 80, Height: 24}
		defer close(terminal)
		var out bytes.Buffer
		err := open(s, "/attach/ns/p/c", "output=1&tty=1").StreamWithContext(t.Context(), remotecommand.StreamOptions{
			Stdout: &out, Tty: true, TerminalSizeQueue: terminal,
		})
		if err != nil || out.String() != "one stream" {
			t.Errorf("error %v, stdout %q", err, out.String())
		}
	})
}

// hang is a command that says it is up and waits for the end of its context.
func hang(started chan<- struct{}, ended chan<- error) func(context.Context, Ref, []string, Streams) (int, error) {
	return func(ctx context.Context, _ Ref, _ []string, s Streams) (int, error) {
		io.WriteString(s.Stdout, "up")
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return 137, nil
	}
}

// The caller may have nothing to say and nothing to hear: its going away is noticed all the same.
func TestCallerWhoGoesAwayEndsExec(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	s := serve(t, &fake{exec: hang(started, ended)})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		left := make(chan error, 1)
		executor := open(s, "/exec/ns/p/c", "command=sleep&output=1")
		go func() { left <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
		soon(t, "start of the command", started)
		cancel()
		if err := soon(t, "end of the client", left); !errors.Is(err, context.Canceled) {
			t.Errorf("the client ends with %v", err)
		}
		soon(t, "end of the backend's call", ended)
	})
}

// Input that never ends does not hold a command whose caller has left.
func TestCallerWhoGoesAwayEndsInput(t *testing.T) {
	ended := make(chan error, 1)
	s := serve(t, &fake{exec: func(_ context.Context, _ Ref, _ []string, s Streams) (int, error) {
		_, err := io.Copy(s.Stdout, s.Stdin)
		ended <- err
		return 0, err
	}})
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		endless, typing := io.Pipe()
		defer typing.Close()
		echo, heard := io.Pipe()
		executor := open(s, "/exec/ns/p/c", "command=cat&input=1&output=1")
		go executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: endless, Stdout: heard})
		for _, word := range []string{"live", "echo"} {
			io.WriteString(typing, word)
			got := make([]byte, 4)
			if _, err := io.ReadFull(echo, got); err != nil || string(got) != word {
				t.Fatalf("heard %q, %v", got, err)
			}
		}
		cancel()
		soon(t, "end of the backend's call", ended)
	})
}

// A stopping Server lets the command end and the caller know how.
func TestStopEndsExec(t *testing.T) {
	eachClient(t, func(t *testing.T, open func(*service, string, string) remotecommand.Executor) {
		started, ended := make(chan struct{}), make(chan error, 1)
		s := serve(t, &fake{exec: hang(started, ended)})
		left := make(chan error, 1)
		executor := open(s, "/exec/ns/p/c", "command=sleep&output=1")
		go func() {
			left <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		}()
		soon(t, "start of the command", started)
		s.shutdown(t)
		soon(t, "end of the backend's call", ended)
		var exit exec.CodeExitError
		if err := soon(t, "end of the client", left); !errors.As(err, &exit) || exit.Code != 137 {
			t.Errorf("the client ends with %v, want exit code 137", err)
		}
	})
}
