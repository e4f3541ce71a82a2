package shell

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// netCommands use the pod's own network and nothing else.
func netCommands() []command {
	return []command{
		{"curl", "sSfLIikvX:o:d:H:m:w:", "[-sSfLIi] [-X METHOD] [-d DATA] [-H HEADER] [-o FILE] [-m SECONDS] URL", curl},
		{"httpd", "fp:h:", "[-f] [-p PORT] [-h DIR]", httpd},
		{"nc", "zlvw:p:", "[-zlv] [-w SECONDS] [-p PORT] [HOST] [PORT]", nc},
		{"wget", "qO:ST:", "[-qS] [-O FILE] [-T SECONDS] URL", wget},
	}
}

// unknownHost is an address outside the pod.
type unknownHost struct{ name string }

func (e *unknownHost) Error() string { return "could not resolve host: " + e.name }

// dial connects to an address of the pod itself. There is no other network to fall back on.
func (c *call) dial(ctx context.Context, host string, port int) (net.Conn, error) {
	switch strings.Trim(host, "[]") {
	case "localhost", "127.0.0.1", "::1", "0.0.0.0", c.container().Hostname:
	default:
		if host == "" || host != c.container().IP {
			return nil, &unknownHost{host}
		}
	}
	if c.container().Net == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(port), Err: errRefused}
	}
	return c.container().Net.Dial(ctx, port)
}

// maxHeader bounds the header of a request or a response.
const maxHeader = 64 << 10

// client is an HTTP client that can only reach the pod. It has no proxy, and it trusts no
// certificate: the default would be to read the host's.
func (c *call) client(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool(), InsecureSkipVerify: c.opts.has('k')},
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				host, port, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				n, err := strconv.Atoi(port)
				if err != nil {
					return nil, err
				}
				return c.dial(ctx, host, n)
			},
		},
	}
}

// target is the URL a command was given; http is assumed.
func parseTarget(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err == nil && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		err = errors.New("unsupported URL")
	}
	return u, err
}

// seconds is a flag's value in the container's time; 0: no limit.
func (c *call) seconds(flag byte) (time.Duration, error) {
	if !c.opts.has(flag) {
		return 0, nil
	}
	d, err := parseDuration(c.opts.value(flag, ""))
	return c.container().Clock.Wall(d), err
}

// nc connects standard input and output to a port of the pod, or listens on one.
func nc(ctx context.Context, c *call) int {
	args := c.args
	port := c.opts.value('p', "")
	if len(args) > 0 && (port == "" || len(args) == 2) {
		port, args = args[len(args)-1], args[:len(args)-1]
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || len(args) > 1 {
		return c.usage()
	}
	host := "localhost"
	if len(args) == 1 {
		host = args[0]
	}
	conn, err := c.ncConn(ctx, host, n)
	if err != nil {
		return c.ncError(host, n, err)
	}
	defer conn.Close()
	if c.opts.has('z') {
		return 0
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c.session.Go(func() { _, _ = io.Copy(conn, c.stdin) })
	_, _ = io.Copy(c.stdout, conn)
	return 0
}

func (c *call) ncConn(ctx context.Context, host string, port int) (net.Conn, error) {
	if !c.opts.has('l') {
		limit, err := c.seconds('w')
		if err != nil {
			return nil, err
		}
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		return c.dial(ctx, host, port)
	}
	l, err := c.listen(port)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	return l.Accept()
}

func (c *call) listen(port int) (net.Listener, error) {
	if c.container().Net == nil {
		return nil, errors.New("no network")
	}
	return c.container().Net.Listen(port)
}

func (c *call) ncError(host string, port int, err error) int {
	var unknown *unknownHost
	switch {
	case errors.As(err, &unknown):
		return c.fail("bad address '%s'", host)
	case errors.Is(err, errRefused):
		if c.opts.has('z') && !c.opts.has('v') {
			return 1
		}
		return c.fail("%s (%s:%d): Connection refused", host, host, port)
	}
	return c.fail("%v", err)
}

// httpd serves a directory over the pod's network. Without -f it goes into the background.
func httpd(ctx context.Context, c *call) int {
	port, err := strconv.Atoi(strings.TrimPrefix(c.opts.value('p', "80"), ":"))
	if _, after, ok := strings.Cut(c.opts.value('p', ""), ":"); ok {
		port, err = strconv.Atoi(after)
	}
	if err != nil {
		return c.fail("bad port '%s'", c.opts.value('p', ""))
	}
	l, err := c.listen(port)
	if err != nil {
		return c.fail("bind: %s", lang.Reason(err))
	}
	dir := path.Clean(c.path(c.opts.value('h', ".")))
	if c.opts.has('f') {
		c.serve(ctx, l, c.fs(), dir)
		return 0
	}
	_, end, err := c.session.Start(c.cmd.Args, func(Signal) { l.Close() })
	if err != nil {
		l.Close()
		return c.fail("can't fork: %v", err)
	}
	c.session.Go(func() {
		defer end()
		c.serve(c.session.ctx, l, c.fs(), dir)
	})
	return 0
}

// serve answers requests until ctx ends or the listener is closed.
func (c *call) serve(ctx context.Context, l net.Listener, f *FS, dir string) {
	server := &http.Server{
		Handler:        c.counted(dir, typed(http.FileServer(http.FS(vfs.DirFS(f, dir))))),
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // the default is the host's standard error
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	defer server.Close()
	_ = server.Serve(l)
}

// counted counts what a request takes, the listing of a directory included, and paces it.
func (c *call) counted(dir string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int64(processCost + maxHeader + c.fs().Entries(path.Join(dir, path.Clean("/"+r.URL.Path)))*entryCost)
		mem := c.session.memory
		if mem.Take(n) != nil || c.session.Spend(r.Context(), 1) != nil {
			http.Error(w, "out of memory", http.StatusServiceUnavailable)
			return
		}
		defer mem.Give(n)
		next.ServeHTTP(w, r)
	})
}

// typed sets the content type of files by their name. The file server would otherwise read
// the host's tables of types.
func typed(next http.Handler) http.Handler {
	types := map[string]string{
		"": "text/plain; charset=utf-8", ".css": "text/css; charset=utf-8", ".gif": "image/gif", ".htm": "text/html; charset=utf-8",
		".html": "text/html; charset=utf-8", ".jpg": "image/jpeg", ".js": "text/javascript; charset=utf-8", ".json": "application/json",
		".md": "text/plain; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
		".xml": "text/xml; charset=utf-8", ".yaml": "text/plain; charset=utf-8",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, ok := types[path.Ext(r.URL.Path)]
		switch {
		case strings.HasSuffix(r.URL.Path, "/"): // its index, or a listing
			kind = types[".html"]
		case !ok:
			kind = "application/octet-stream"
		}
		w.Header().Set("Content-Type", kind)
		next.ServeHTTP(w, r)
	})
}
