package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
)

// trackedListener remembers its open connections. net/http forgets a connection once it is
// hijacked for streaming, so that neither its Close nor a request's context would reach it.
type trackedListener struct {
	net.Listener
	mu   sync.Mutex
	open map[*trackedConn]struct{} // nil once closeAll has run
}

func track(l net.Listener) *trackedListener {
	return &trackedListener{Listener: l, open: map[*trackedConn]struct{}{}}
}

// Accept returns connections that are closed by closeAll, also those that arrive after it.
func (l *trackedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	conn := &trackedConn{Conn: inner, listener: l, life: life, end: end}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		end()
		_ = inner.Close()
		return nil, net.ErrClosed
	}
	l.open[conn] = struct{}{}
	return conn, nil
}

// closeAll closes the listener and every connection.
func (l *trackedListener) closeAll() {
	_ = l.Close()
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for conn := range open {
		_ = conn.Close()
	}
}

func (l *trackedListener) forget(conn *trackedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, conn)
}

// trackedConn announces its end. Both SPDY and WebSocket streams read all the time, so a
// caller that goes away is noticed by the read that fails, whether or not anybody writes.
type trackedConn struct {
	net.Conn
	listener *trackedListener
	life     context.Context // ends with the connection
	end      context.CancelFunc
}

// Read ends the connection's life on any error but a deadline, which net/http sets to get its
// own background read out of the way.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.end()
	}
	return n, err
}

func (c *trackedConn) Close() error {
	c.end()
	c.listener.forget(c)
	return c.Conn.Close()
}

// connKey finds the connection of a request in its context.
type connKey struct{}

// connContext ends with the connection, hijacked or not: contexts of requests derive from it.
func connContext(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*tls.Conn).NetConn().(*trackedConn)
	if !ok {
		return ctx
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, connKey{}, conn))
	context.AfterFunc(conn.life, cancel)
	return ctx
}

// closeConn cuts the connection that the request of ctx came on.
func closeConn(ctx context.Context) {
	if conn, ok := ctx.Value(connKey{}).(*trackedConn); ok {
		_ = conn.Close()
	}
}
