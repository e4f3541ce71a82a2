package intruder

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long one attempt may take. Everything is on this machine.
const patience = 10 * time.Second

// Try is nil where the user uid gets nothing out of a socket. It needs root, to become that user.
func Try(ctx context.Context, s Socket, uid int) error {
	switch s.Network {
	case "unix":
		return tryUnix(s, uid)
	case "tcp", "tcp6":
		return tryTCP(ctx, s, uid)
	}
	return fmt.Errorf("%s: nobody knows how to try it", s)
}

// as runs f on a thread that has the rights of uid and of no group. The thread is not used again: a goroutine that
// ends while it is locked to its thread ends the thread, and the runtime makes no others from it.
func as(uid int, f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, 0, 0, 0},
			{unix.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)},
			{unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				result <- fmt.Errorf("become user %d: %w", uid, errno)
				return
			}
		}
		result <- f()
	}()
	return <-result
}

func tryUnix(s Socket, uid int) error {
	name := s.Address
	if strings.HasPrefix(name, "@") {
		name = "\x00" + name[1:] // what x/sys/unix takes for an abstract name as well
	}
	var refused error
	err := as(uid, func() error {
		fd, err := unix.Socket(unix.AF_UNIX, s.Type|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		refused = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		return nil
	})
	switch {
	case err != nil:
		return err
	case refused == nil:
		return fmt.Errorf("%s: user %d can open it", s, uid)
	case errors.Is(refused, unix.EACCES), errors.Is(refused, unix.ENOENT):
		return nil
	}
	return fmt.Errorf("%s: user %d is not refused for want of permission: %w", s, uid, refused)
}

// dialAs connects with the rights of uid. What is done with the connection later is done by whoever does it: the
// kernel remembers who opened it.
func dialAs(ctx context.Context, uid int, address string) (conn net.Conn, err error) {
	err = as(uid, func() (err error) {
		conn, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

func tryTCP(ctx context.Context, s Socket, uid int) error {
	ctx, cancel := context.WithTimeout(ctx, 6*patience)
	defer cancel()
	conn, err := dialAs(ctx, uid, s.Address)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	scheme := "https"
	switch err := greet(conn); {
	case turnedAway(err):
		return nil
	case plainHTTP(err):
		scheme = "http"
	case err != nil:
		return fmt.Errorf("%s does not demand TLS: %w", s, err)
	}
	for _, r := range requests() {
		if scheme == "http" && (r.http2 || r.open) {
			r.http2, r.open = false, false // what has no TLS tells strangers nothing at all
		}
		if err := r.try(ctx, s, scheme, uid); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// greet completes a handshake without a certificate, then sends one request: with TLS 1.3 a server says only after the
// handshake that it wanted a certificate.
func greet(conn net.Conn) error {
	c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(c, first); err != nil {
		return err
	}
	if string(first) != "HTTP/" {
		return fmt.Errorf("it answers %q, which is not HTTP, to a stranger", first)
	}
	return nil
}

// turnedAway says whether a server ended the connection by a TLS alert, as one does that wants a certificate.
func turnedAway(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// plainHTTP says whether a server took the handshake for a request in HTTP without TLS. On loopback that can do, for a page that a
// browser opens, where it tells nobody anything without credentials.
func plainHTTP(err error) bool {
	var record tls.RecordHeaderError
	return errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/"
}

// request is something that a stranger might ask for.
type request struct {
	method, path string
	header       http.Header
	http2        bool
	open         bool // everybody may know
}

// requests are for what the servers of a cluster are known to offer, and for what they must not. Each is sent as a
// stranger, as someone who claims to be an administrator, and with a token that nobody issued.
func requests() (all []request) {
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/version"} {
		all = append(all, request{method: http.MethodGet, path: path, open: true})
	}
	for _, claim := range []http.Header{
		nil,
		{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
		{"Impersonate-User": {"admin"}, "Impersonate-Group": {"system:masters"}},
		{"Authorization": {"Bearer admin"}},
		{"Authorization": {"Basic YWRtaW46YWRtaW4="}},
	} {
		for _, r := range []request{
			{method: "GET", path: "/"},
			{method: "GET", path: "/metrics"},
			{method: "GET", path: "/debug/pprof/"},
			{method: "GET", path: "/debug/flags/v"},
			{method: "GET", path: "/configz"},
			{method: "GET", path: "/logs/"},
			{method: "GET", path: "/api/v1/secrets"},
			{method: "POST", path: "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"},
			{method: "GET", path: "/apis"},
			{method: "GET", path: "/openapi/v2"},
			{method: "GET", path: "/apis/answers.berth.dev/v1alpha1/workloads"},
			{method: "GET", path: "/pods"},
			{method: "POST", path: "/exec/default/a/a?command=id"},
			{method: "POST", path: "/run/default/a/a"},
			{method: "GET", path: "/members"},
			{method: "POST", path: "/raft"},
			{method: "POST", path: "/v3/kv/range"},
			{method: "POST", path: "/etcdserverpb.KV/Range", http2: true},
			{method: "POST", path: "/etcdserverpb.KV/Put", http2: true},
		} {
			r.header = claim
			all = append(all, r)
		}
	}
	return all
}

func (r request) try(ctx context.Context, s Socket, scheme string, uid int) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!r.http2)
	protocols.SetHTTP2(r.http2)
	client := &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true,
			Protocols:         protocols,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return dialAs(ctx, uid, address)
			},
		},
	}
	req, err := http.NewRequestWithContext(ctx, r.method, scheme+"://"+s.Address+r.path, nil)
	if err != nil {
		return err
	}
	req.Header = r.header.Clone()
	if r.http2 && req.Header == nil {
		req.Header = http.Header{}
	}
	if r.http2 {
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("TE", "trailers")
	}
	resp, err := client.Do(req)
	if r.http2 && err != nil && ctx.Err() == nil {
		return nil // it does not speak HTTP/2, and so no gRPC
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil
	}
	if r.open {
		return nil
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
	return fmt.Errorf("%s %s (%v) is answered %s to user %d, who showed no credentials: %q", r.method, r.path, r.header, resp.Status, uid, head)
}
