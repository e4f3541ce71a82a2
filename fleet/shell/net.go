package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// backlog is how many connections may wait to be accepted.
const backlog = 128

var (
	errRefused = errors.New("connection refused")
	errInUse   = errors.New("address already in use")
)

// Net is the network of one pod: ports that its containers listen on, in memory. Nothing
// outside the pod is on it. Safe for concurrent use.
type Net struct {
	mu    sync.Mutex
	ports map[int]*listener
	conns int // open ends of connections
}

// maxConns is how many connections a pod's network carries at once, from inside and outside.
const maxConns = 512

// join counts a new connection; false if there are too many.
func (n *Net) join() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns >= 2*maxConns {
		return false
	}
	n.conns += 2
	return true
}

// left is called once for each end that is closed.
func (n *Net) left() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns--
}

// NewNet makes a network on which nobody listens.
func NewNet() *Net { return &Net{ports: map[int]*listener{}} }

// Listen takes a port; 0 takes a free one.
func (n *Net) Listen(port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: address(port), Err: errors.New("invalid port")}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for free := 32768; port == 0; free++ {
		if n.ports[free] == nil {
			port = free
		}
	}
	if n.ports[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: address(port), Err: errInUse}
	}
	l := &listener{net: n, port: port, conns: make(chan net.Conn, backlog), closed: make(chan struct{})}
	n.ports[port] = l
	return l, nil
}

// Dial connects to a port of the pod; it is refused if nobody listens.
func (n *Net) Dial(ctx context.Context, port int) (net.Conn, error) {
	n.mu.Lock()
	l := n.ports[port]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: address(port), Err: errRefused}
	if l == nil || !n.join() {
		return nil, refused
	}
	client, server := net.Pipe()
	near := &conn{Conn: client, local: address(0), remote: address(port), left: sync.OnceFunc(n.left)}
	far := &conn{Conn: server, local: address(port), remote: address(0), left: sync.OnceFunc(n.left)}
	select {
	case l.conns <- far:
		l.hangUpIfClosed()
		return near, nil
	case <-l.closed:
		near.Close()
		far.Close()
		return nil, refused
	case <-ctx.Done():
		near.Close()
		far.Close()
		return nil, fmt.Errorf("dial port %d: %w", port, context.Cause(ctx))
	}
}

func address(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

type listener struct {
	net    *Net
	port   int
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Close frees the port and hangs up on those not accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		delete(l.net.ports, l.port)
		l.net.mu.Unlock()
		close(l.closed)
		l.hangUpIfClosed()
	})
	return nil
}

// hangUpIfClosed closes the connections that nobody will accept.
func (l *listener) hangUpIfClosed() {
	select {
	case <-l.closed:
	default:
		return
	}
	for {
		select {
		case c := <-l.conns:
			c.Close()
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return address(l.port) }

// conn is a pipe with the addresses of a TCP connection.
type conn struct {
	net.Conn
	local, remote net.Addr
	left          func() // once
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) Close() error {
	c.left()
	return c.Conn.Close()
}
