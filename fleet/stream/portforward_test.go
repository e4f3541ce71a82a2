package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //lint:ignore SA1019 client-go still takes its Dialer from here
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forwarding is a client that forwards a local port to port 8080 of a pod.
type forwarding struct {
	local string // address
	stop  chan struct{}
	done  chan error
}

func (s *service) dialer(t *testing.T) httpstream.Dialer {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(s.config)
	if err != nil {
		t.Fatal(err)
	}
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", s.url("/portForward/ns/p", nil))
}

func startForwarding(t *testing.T, s *service) *forwarding {
	t.Helper()
	f := &forwarding{stop: make(chan struct{}), done: make(chan error, 1)}
	ready := make(chan struct{})
	forwarder, err := portforward.New(s.dialer(t), []string{"0:8080"}, f.stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { f.done <- forwarder.ForwardPorts() }()
	soon(t, "port-forward", ready)
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	f.local = fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
	return f
}

func (f *forwarding) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", f.local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestPortForwardCarriesConnections(t *testing.T) {
	s := serve(t, &fake{forward: func(_ context.Context, ref Ref, port int32, conn io.ReadWriteCloser) error {
		word := make([]byte, 4)
		if _, err := io.ReadFull(conn, word); err != nil {
			return err
		}
		_, err := fmt.Fprintf(conn, "%s/%s%s:%d %s", ref.Namespace, ref.Pod, ref.Container, port, word)
		return err
	}})
	f := startForwarding(t, s)
	first, second := f.dial(t), f.dial(t)
	for word, conn := range map[string]net.Conn{"ping": first, "pong": second} {
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "ns/p:8080 "+word {
			t.Errorf("answer %q, %v", got, err)
		}
	}
	close(f.stop)
	if err := soon(t, "end of the client", f.done); err != nil {
		t.Error(err)
	}
}

// The error comes on a stream of its own beside the data, which client-go only logs.
func TestPortForwardToAClosedPort(t *testing.T) {
	s := serve(t, &fake{forward: func(_ context.Context, _ Ref, _ int32, conn io.ReadWriteCloser) error {
		_, _ = conn.Read(make([]byte, 1)) // until the client has both streams
		return errors.New("connect to localhost:8080: connection refused")
	}})
	conn, _, err := s.dialer(t).Dial("portforward.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	headers := http.Header{"Port": {"8080"}, "Requestid": {"0"}, "Streamtype": {"error"}}
	report, err := conn.CreateStream(headers)
	if err != nil {
		t.Fatal(err)
	}
	headers.Set("streamType", "data")
	data, err := conn.CreateStream(headers)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(report)
		said <- string(text)
	}()
	if _, err := io.WriteString(data, "x"); err != nil {
		t.Fatal(err)
	}
	if got := soon(t, "the error", said); !strings.HasSuffix(got, "connect to localhost:8080: connection refused") {
		t.Errorf("the error stream says %q", got)
	}
}

// stuck is a port that reads for ever; it comes back with the reason.
func stuck(started chan<- struct{}, ended chan<- error) func(context.Context, Ref, int32, io.ReadWriteCloser) error {
	return func(ctx context.Context, _ Ref, _ int32, conn io.ReadWriteCloser) error {
		started <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
}

func TestCallerWhoGoesAwayEndsPortForward(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	s := serve(t, &fake{forward: stuck(started, ended)})
	f := startForwarding(t, s)
	f.dial(t)
	soon(t, "start of the connection", started)
	close(f.stop)
	soon(t, "end of the backend's call", ended)
}

func TestStopEndsPortForward(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	s := serve(t, &fake{forward: stuck(started, ended)})
	f := startForwarding(t, s)
	f.dial(t)
	soon(t, "start of the connection", started)
	idle := startForwarding(t, s)
	defer close(idle.stop)
	began := time.Now()
	s.shutdown(t)
	if took := time.Since(began); took > drain/2 {
		t.Errorf("stopping took %v", took)
	}
	soon(t, "end of the backend's call", ended)
	soon(t, "end of the client", f.done)
	close(f.stop)
}
