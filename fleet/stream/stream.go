// Package stream serves what the API server asks a kubelet for while somebody watches:
// container logs, exec, attach and port-forward. One HTTPS listener on loopback answers for
// every simulated node, because a request already names its pod.
//
// It is transport only. It checks who calls, turns a request into one call of a [Backend],
// and carries bytes, exit codes and errors back; it knows no pods and holds no state of
// them. The fleet starts one Server and gives its port to every Node object
// (status.daemonEndpoints); fleet/kubelet is the Backend.
//
// The API server translates WebSocket v5 and tunnelled port-forward requests to SPDY for any
// node that does not list ExtendWebSocketsToKubelet in status.declaredFeatures. The simulated
// nodes must not list it: SPDY and the older WebSocket protocols are what is served here.
package stream

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Backend is the pod side. Every ctx ends when the caller goes away or the Server stops, and
// a call must return soon after. Errors made by [NotFound] and [BadRequest] keep their
// meaning as an HTTP status; any other is an internal error.
type Backend interface {
	// Logs writes the container's log to w, honouring every field of opts, and keeps writing
	// while opts.Follow is set and the container runs. Each Write to w is flushed to the
	// caller. opts.Stream is never nil.
	Logs(ctx context.Context, ref Ref, opts *corev1.PodLogOptions, w io.Writer) error

	// Exec runs cmd and returns its exit status. err means that it could not be run at all.
	Exec(ctx context.Context, ref Ref, cmd []string, s Streams) (exit int, err error)

	// Attach joins the streams of the container's main process until it ends.
	Attach(ctx context.Context, ref Ref, s Streams) error

	// PortForward copies between conn and a port of the pod until either side ends. It is
	// called once per forwarded connection, with ref.Container empty; the Server closes conn.
	PortForward(ctx context.Context, ref Ref, port int32, conn io.ReadWriteCloser) error
}

// Checker is what a Backend may offer as well: Check is asked before a connection is turned
// into a stream, so that a missing pod or a container that does not run is refused with an
// HTTP status, as a kubelet does it, and not with an error inside a stream.
// ref.Container is empty for port-forward; ref.UID is empty where the caller gave none.
type Checker interface {
	Check(ctx context.Context, ref Ref) error
}

// Ref names a container, or a pod where Container is empty.
type Ref struct {
	Namespace, Pod, Container string
	// UID is the pod's, when the caller insists on one incarnation; empty means any.
	UID types.UID
}

// TerminalSize is the width and height of the caller's terminal, in characters.
type TerminalSize = remotecommand.TerminalSize

// Streams are the caller's ends of a process.
type Streams struct {
	// Stdin is nil when the caller sends no input. A Read ends with the caller's connection,
	// which may be later than the call's ctx: nobody should wait for one after ctx has ended.
	Stdin io.Reader
	// Stdout and Stderr are never nil: what the caller did not ask for is discarded. With
	// TTY they are the same stream, and the caller's terminal is the only reader.
	Stdout, Stderr io.Writer
	TTY            bool
	// Resize yields the terminal's size whenever it changes; it is nil without a terminal and
	// closed when the caller goes away.
	Resize <-chan TerminalSize
}
