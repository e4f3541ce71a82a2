package stream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// idleTimeout closes a stream on which nothing moved for as long as a kubelet's default lets it.
const idleTimeout = 4 * time.Hour

// exec runs a command in a container. The query speaks the kubelet's dialect: command,
// input, output, error and tty.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) error {
	opts, ref, err := s.commandRequest(r)
	if err != nil {
		return err
	}
	cmd := r.URL.Query()["command"]
	if len(cmd) == 0 {
		return BadRequest("you must specify a command")
	}
	c := &command{backend: s.opts.Backend, ref: ref, opts: *opts}
	remotecommand.ServeExec(w, r, c, ref.Pod, string(ref.UID), ref.Container, cmd, opts,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	return nil
}

// attach joins a container's main process.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) error {
	opts, ref, err := s.commandRequest(r)
	if err != nil {
		return err
	}
	c := &command{backend: s.opts.Backend, ref: ref, opts: *opts}
	remotecommand.ServeAttach(w, r, c, ref.Pod, string(ref.UID), ref.Container, opts,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
	return nil
}

// commandRequest is what exec and attach do before the connection becomes a stream.
func (s *Server) commandRequest(r *http.Request) (*remotecommand.Options, Ref, error) {
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		return nil, Ref{}, BadRequest(err.Error())
	}
	ref := refOf(r)
	return opts, ref, s.check(r.Context(), ref)
}

// command carries one exec or attach to the Backend: it is the Executor and the Attacher of
// the streaming library, whose own pod arguments it ignores in favour of ref.
type command struct {
	backend Backend
	ref     Ref
	opts    remotecommand.Options
}

// ExecInContainer reports a non-zero exit as the error type from which the library makes the
// status that kubectl turns into its own exit code.
func (c *command) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	exit, err := c.backend.Exec(ctx, c.ref, cmd, c.streams(in, out, errOut, resize))
	if err != nil {
		return err
	}
	if exit != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", exit), Code: exit}
	}
	return nil
}

func (c *command) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize) error {
	return c.backend.Attach(ctx, c.ref, c.streams(in, out, errOut, resize))
}

// streams keeps what the caller asked for. The library hands over live streams also for
// channels that were not asked for (WebSocket) and nil ones (SPDY).
func (c *command) streams(in io.Reader, out, errOut io.Writer, resize <-chan remotecommand.TerminalSize) Streams {
	s := Streams{Stdout: io.Discard, Stderr: io.Discard, TTY: c.opts.TTY}
	if c.opts.Stdin {
		s.Stdin = in
	}
	if c.opts.Stdout {
		s.Stdout = out
	}
	if c.opts.Stderr {
		s.Stderr = errOut
	}
	if c.opts.TTY {
		s.Stderr = s.Stdout
		s.Resize = resize
	}
	return s
}
