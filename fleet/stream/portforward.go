package stream

import (
	"context"
	"io"
	"net/http"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// portForward carries any number of TCP connections to one pod over one connection.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) error {
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		return BadRequest(err.Error())
	}
	ref := refOf(r)
	if err := s.check(r.Context(), ref); err != nil {
		return err
	}
	// The library ends with the connection only, which may well be idle when we stop.
	stop := context.AfterFunc(r.Context(), func() { closeConn(r.Context()) })
	defer stop()
	f := &forwarder{ctx: r.Context(), backend: s.opts.Backend, ref: ref, calls: &s.calls}
	portforward.ServePortForward(w, r, f, ref.Pod, string(ref.UID), opts,
		idleTimeout, remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
	return nil
}

// forwarder carries forwarded connections to the Backend.
type forwarder struct {
	ctx     context.Context // the request's: the library gives a context that never ends
	backend Backend
	ref     Ref
	calls   *calls
}

// PortForward serves one connection. It closes the stream when ctx ends, so that a Backend
// that is stuck in Read comes back.
func (f *forwarder) PortForward(_ context.Context, _, _ string, port int32, conn io.ReadWriteCloser) error {
	if !f.calls.begin() {
		return errStopping
	}
	defer f.calls.end()
	stop := context.AfterFunc(f.ctx, func() { _ = conn.Close() })
	defer stop()
	return f.backend.PortForward(f.ctx, f.ref, port, conn)
}
