package intruder

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEveryKindOfSocketIsFoundAndTried opens sockets as careless servers do, and well-kept ones beside them.
func TestEveryKindOfSocketIsFoundAndTried(t *testing.T) {
	dir, err := os.MkdirTemp("", "intruder") // a path that fits into a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(dir, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	denied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.Error(w, "no", http.StatusUnauthorized)
		}
	})
	for _, c := range []struct {
		what         string
		open         func(t *testing.T)
		rules, tried string // part of what is said; "": nothing
	}{
		{"no name at all, which the kernel turns into an abstract one", unixListener("", 0), "is abstract", "can open it"},
		{"an abstract name", unixListener("@berth-intruder-test", 0), "is abstract", "can open it"},
		{"an abstract name for datagrams", datagrams("unixgram", "@berth-intruder-datagrams"), "is abstract", "can open it"},
		{"a socket file for everybody", unixListener(filepath.Join(dir, "a.sock"), 0o777), "has mode 0777", "can open it"},
		{"a socket file for everybody in a private folder", unixListener(filepath.Join(private, "b.sock"), 0o777), "has mode 0777", ""},
		{"a private socket file in a folder for everybody", unixListener(filepath.Join(dir, "c d.sock"), 0o600), "has mode 0755", ""},
		{"a private socket file in a private folder", unixListener(filepath.Join(private, "d.sock"), 0o600), "", ""},
		{"UDP", datagrams("udp4", "127.0.0.1:0"), "nothing on it can be asked", "nobody knows how"},
		{"UDP over IPv6", datagrams("udp6", "[::1]:0"), "nothing on it can be asked", "nobody knows how"},
		{"a raw socket", raw, "nothing on it can be asked", "nobody knows how"},
		{"TCP on all addresses, with a protocol of its own", banner("0.0.0.0:0"), "other machines", "does not demand TLS"},
		{"TCP over IPv6", banner("[::1]:0"), "", "does not demand TLS"},
		{"HTTP for everybody", web(hello, nil), "", "GET /healthz (map[]) is answered 200 OK"},
		{"HTTP that tells strangers its version", web(denied, nil), "", "GET /version"},
		{"HTTP that authenticates", web(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }), nil), "", ""},
		{"HTTPS for everybody", web(hello, &tls.Config{}), "", "GET / (map[]) is answered 200 OK"},
		{"HTTPS with nothing there", web(http.NotFoundHandler(), &tls.Config{}), "", "is answered 404"},
		{"HTTPS that trusts a header", web(trusting(denied), &tls.Config{}), "", "X-Remote-User"},
		{"HTTPS that authenticates", web(denied, &tls.Config{}), "", ""},
		{"HTTPS that wants a certificate", web(hello, &tls.Config{ClientAuth: tls.RequireAnyClientCert}), "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			before, err := Sockets(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			c.open(t)
			after, err := Sockets(os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			if len(after) != len(before)+1 {
				t.Fatalf("found %v, before %v: want one more", after, before)
			}
			s := newest(before, after)
			check(t, "rules", Rules(s, os.Geteuid()), c.rules)
			if os.Geteuid() != 0 {
				t.Skip("only root can become another user")
			}
			check(t, "tried", Try(context.Background(), s, Nobody), c.tried)
		})
	}
}

func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v, want nothing", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func newest(before, after []Socket) Socket {
	known := map[Socket]bool{}
	for _, s := range before {
		known[s] = true
	}
	for _, s := range after {
		if !known[s] {
			return s
		}
	}
	return Socket{}
}

func unixListener(path string, mode os.FileMode) func(*testing.T) {
	return func(t *testing.T) {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if mode != 0 {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func datagrams(network, address string) func(*testing.T) {
	return func(t *testing.T) {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { c.Close() })
	}
}

func raw(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
}

// banner greets whoever comes, as many old protocols do.
func banner(address string) func(*testing.T) {
	return func(t *testing.T) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprintln(c, "+OK what do you want?")
				c.Close()
			}
		}()
	}
}

func web(h http.Handler, config *tls.Config) func(*testing.T) {
	return func(t *testing.T) {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		if config == nil {
			s.Start()
		} else {
			s.TLS = config
			s.StartTLS()
		}
		t.Cleanup(s.Close)
	}
}

// trusting is a server that believes what a front proxy's headers say, whoever sends them.
func trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Remote-User") == "" {
			next.ServeHTTP(w, r)
		}
	})
}
