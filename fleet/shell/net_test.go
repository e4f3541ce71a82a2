package shell

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestNet(t *testing.T) {
	n := NewNet()
	if _, err := n.Dial(t.Context(), 80); !errors.Is(err, errRefused) {
		t.Errorf("dial without a listener: %v", err)
	}
	l, err := n.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen(80); !errors.Is(err, errInUse) {
		t.Errorf("second listener: %v", err)
	}
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, io.LimitReader(c, 4))
			c.Close()
		}
	}()
	c, err := n.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Write([]byte("ping")) }()
	if got, err := io.ReadAll(c); string(got) != "ping" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if got := []string{c.RemoteAddr().String(), l.Addr().String()}; !cmp.Equal(got, []string{"127.0.0.1:80", "127.0.0.1:80"}) {
		t.Errorf("addresses %q", got)
	}
	waiting, err := n.Dial(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := io.ReadAll(waiting); err != nil {
		t.Errorf("a connection that is never accepted must end: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if free, err := n.Listen(0); err != nil || free.Addr().(*net.TCPAddr).Port < 1024 {
		t.Errorf("any port: %v, %v", free, err)
	}
}

// TestHTTPD serves a container's files to a caller outside of it, as probes and port
// forwarding do.
func TestHTTPD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer()
		if err := c.FS.WriteFile("/www/index.html", []byte("hello"), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan int)
		go func() {
			ended <- Run(ctx, &Process{Args: []string{"httpd", "-f", "-p", "8080", "-h", "/www"}, Container: c})
		}()
		synctest.Wait()
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Net.Dial(ctx, 8080) },
		}}
		for path, want := range map[string]int{"/": 200, "/nope": 404, "/../etc/passwd": 404} {
			resp, err := client.Get("http://pod" + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if kind := resp.Header.Get("Content-Type"); want == 200 && kind != "text/html; charset=utf-8" {
				t.Errorf("GET %s: %s", path, kind)
			}
			if resp.StatusCode != want {
				t.Errorf("GET %s: %d, want %d", path, resp.StatusCode, want)
			}
		}
		cancel(Terminate)
		if status := <-ended; status != 143 {
			t.Errorf("status %d", status)
		}
		if _, err := c.Net.Dial(t.Context(), 8080); !errors.Is(err, errRefused) {
			t.Errorf("port still taken: %v", err)
		}
	})
}
