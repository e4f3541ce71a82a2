package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout bounds a caller that connects and says nothing.
	headerTimeout = 10 * time.Second
	// answerTimeout bounds a caller that does not read the metrics that it asked for.
	answerTimeout = 30 * time.Second
	// keepAlive is how long a connection without a request is kept for the next one.
	keepAlive = 90 * time.Second
	// drain is how long a stopping Server waits for Backend calls to notice.
	drain = 5 * time.Second
)

// Options say who serves and who may call.
type Options struct {
	Backend Backend
	// Certificate is the server's own, valid for the loopback address.
	Certificate tls.Certificate
	// ClientCAs sign the client certificates that are let in, and ClientName is the common
	// name such a certificate must have: the API server's kubelet client and nobody else.
	ClientCAs  *x509.CertPool
	ClientName string
	// Aggregated answers the API server where it comes as AggregatorName, for an API that this endpoint serves beside the
	// kubelets': under the server name that AggregatedCertificate is for. Nil: there is none.
	Aggregated            http.Handler
	AggregatorName        string
	AggregatedCertificate *tls.Certificate
	// Log gets one line per request that ended in an error; nil discards.
	Log *slog.Logger
}

// Server is the kubelets' HTTPS endpoint. While nobody calls it is one goroutine in accept.
type Server struct {
	opts     Options
	listener *trackedListener
	calls    calls // requests and forwarded connections
}

// Listen opens the listener, for instance on "127.0.0.1:0". Any address that could be reached
// from another machine is refused. Requests are answered once Serve runs.
func Listen(addr string, opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("kubelet endpoint: %w", err)
	}
	tcp, err := loopback(addr)
	if err != nil {
		return nil, fmt.Errorf("kubelet endpoint: %w", err)
	}
	inner, err := net.ListenTCP("tcp", tcp)
	if err != nil {
		return nil, fmt.Errorf("kubelet endpoint: %w", err)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{opts: opts, listener: track(inner)}, nil
}

// validate refuses options with which anybody could call, or nobody be answered.
func (o Options) validate() error {
	switch {
	case o.Backend == nil:
		return errors.New("no backend")
	case len(o.Certificate.Certificate) == 0:
		return errors.New("no serving certificate")
	case o.ClientCAs == nil:
		return errors.New("no CA for client certificates")
	case o.ClientName == "":
		return errors.New("no client name")
	case o.Aggregated != nil && (o.AggregatorName == "" || o.AggregatorName == o.ClientName):
		return errors.New("no name of its own for the client of the aggregated API")
	}
	return nil
}

// loopback resolves addr and refuses it unless it stays on this machine.
func loopback(addr string) (*net.TCPAddr, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", addr, err)
	}
	if !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("refusing to listen on %q: only loopback addresses such as 127.0.0.1 are allowed", addr)
	}
	return tcp, nil
}

// Port is the TCP port that is listened on.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Serve answers requests until ctx ends. Then it ends the contexts of the Backend's calls,
// gives them a moment to return, so that callers learn an exit code and not of a broken
// connection, closes every stream and returns nil. It is called once.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := s.http(ctx)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.ServeTLS(s.listener, "", "")
	stopped := ctx.Err() != nil
	cancel()
	s.wait()
	s.listener.closeAll()
	if !stopped {
		return fmt.Errorf("serve kubelet endpoint: %w", err)
	}
	return nil
}

// http is the HTTP server. HTTP/2 is off so that every stream has a connection of its own,
// whose end is the end of the call (see trackedConn).
func (s *Server) http(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           s.authenticate(s.routes()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connContext,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: s.certificate,
			// A missing certificate is answered with 401, which says more than a broken
			// handshake; one that is given must verify.
			ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs:  s.opts.ClientCAs,
		},
	}
}

// certificate is the kubelets', except for whoever wants the aggregated API.
func (s *Server) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := s.opts.AggregatedCertificate; c != nil && hello.ServerName != "" && c.Leaf != nil && c.Leaf.VerifyHostname(hello.ServerName) == nil {
		return c, nil
	}
	return &s.opts.Certificate, nil
}

// wait gives running calls a moment to return.
func (s *Server) wait() {
	select {
	case <-s.calls.close():
	case <-time.After(drain):
		s.opts.Log.Warn("streams still open after the kubelet endpoint stopped", "waited", drain)
	}
}
