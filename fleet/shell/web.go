package shell

import (
	"context"
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

// client is an HTTP client that can only reach the pod. It has no proxy and no TLS
// configuration of the host.
func (c *call) client(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			DisableKeepAlives: true,
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

func curl(ctx context.Context, c *call) int {
	if len(c.args) != 1 {
		c.errorf("try 'curl URL'")
		return 2
	}
	u, err := parseTarget(c.args[0])
	limit, terr := c.seconds('m')
	if err != nil || terr != nil {
		c.errorf("(3) URL rejected: %v", errors.Join(err, terr))
		return 3
	}
	req, err := c.curlRequest(ctx, u)
	if err != nil {
		c.errorf("(3) %v", err)
		return 3
	}
	client := c.client(limit)
	if !c.opts.has('L') {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	resp, err := client.Do(req)
	if err != nil {
		return c.curlError(u, err)
	}
	defer resp.Body.Close()
	return c.curlResponse(resp)
}

func (c *call) curlRequest(ctx context.Context, u *url.URL) (*http.Request, error) {
	method, body := http.MethodGet, strings.Join(c.opts['d'], "&")
	switch {
	case c.opts.has('X'):
		method = c.opts.value('X', "")
	case c.opts.has('I'):
		method = http.MethodHead
	case c.opts.has('d'):
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "curl/8.9.0")
	if c.opts.has('d') {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range c.opts['H'] {
		name, value, _ := strings.Cut(h, ":")
		req.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return req, nil
}

func (c *call) curlError(u *url.URL, err error) int {
	quiet := c.opts.has('s') && !c.opts.has('S')
	say := func(code int, text string) int {
		if !quiet {
			c.errorf("(%d) %s", code, text)
		}
		return code
	}
	var unknown *unknownHost
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &unknown):
		return say(6, "Could not resolve host: "+u.Hostname())
	case errors.Is(err, errRefused):
		return say(7, "Failed to connect to "+u.Hostname()+" port "+portOf(u)+" after 0 ms: Couldn't connect to server")
	case errors.As(err, &timeout) && timeout.Timeout():
		return say(28, "Operation timed out")
	}
	return say(56, "Recv failure: "+lang.Reason(err))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func (c *call) curlResponse(resp *http.Response) int {
	if c.opts.has('f') && resp.StatusCode >= 400 {
		if !c.opts.has('s') || c.opts.has('S') {
			c.errorf("(22) The requested URL returned error: %d", resp.StatusCode)
		}
		return 22
	}
	if c.opts.has('i') || c.opts.has('I') {
		c.printf("%s %s\r\n", resp.Proto, resp.Status)
		var head strings.Builder
		_ = resp.Header.Write(&head)
		c.print(head.String() + "\r\n")
	}
	if err := c.save(c.opts.value('o', "-"), resp.Body); err != nil {
		c.errorf("(23) %s", lang.Reason(err))
		return 23
	}
	if c.opts.has('w') {
		c.print(strings.NewReplacer("%{http_code}", strconv.Itoa(resp.StatusCode), "%{response_code}", strconv.Itoa(resp.StatusCode),
			`\n`, "\n", `\t`, "\t").Replace(c.opts.value('w', "")))
	}
	return 0
}

// save writes r to a file, or to standard output for "-".
func (c *call) save(name string, r io.Reader) error {
	if name == "-" {
		_, err := io.Copy(c.stdout, r)
		return err
	}
	f, err := c.create(name, vfs.Truncate)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, r)
	return err
}

func wget(ctx context.Context, c *call) int {
	if len(c.args) != 1 {
		return c.usage()
	}
	u, err := parseTarget(c.args[0])
	limit, terr := c.seconds('T')
	if err != nil || terr != nil {
		return c.fail("bad address '%s'", c.args[0])
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return c.fail("%v", err)
	}
	req.Header.Set("User-Agent", "Wget")
	resp, err := c.client(limit).Do(req)
	if err != nil {
		return c.wgetError(u, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return c.fail("server returned error: %s %s", resp.Proto, resp.Status)
	}
	name := c.opts.value('O', path.Base(u.Path))
	if name == "." || name == "/" || name == "" {
		name = "index.html"
	}
	if err := c.save(name, resp.Body); err != nil {
		return c.fail("%s: %s", name, lang.Reason(err))
	}
	if !c.opts.has('q') && name != "-" {
		c.printErr("'" + name + "' saved\n")
	}
	return 0
}

func (c *call) wgetError(u *url.URL, err error) int {
	var unknown *unknownHost
	switch {
	case errors.As(err, &unknown):
		return c.fail("bad address '%s'", u.Hostname())
	case errors.Is(err, errRefused):
		return c.fail("can't connect to remote host (%s): Connection refused", u.Hostname())
	}
	return c.fail("download failed: %s", lang.Reason(err))
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
		serve(ctx, l, c.fs(), dir)
		return 0
	}
	_, end, err := c.session.Start(c.cmd.Args, func(Signal) { l.Close() })
	if err != nil {
		l.Close()
		return c.fail("can't fork: %v", err)
	}
	c.session.Go(func() {
		defer end()
		serve(c.session.ctx, l, c.fs(), dir)
	})
	return 0
}

// serve answers requests until ctx ends or the listener is closed.
func serve(ctx context.Context, l net.Listener, f *FS, dir string) {
	server := &http.Server{
		Handler:  http.FileServer(http.FS(vfs.DirFS(f, dir))),
		ErrorLog: log.New(io.Discard, "", 0), // the default is the host's standard error
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	defer server.Close()
	_ = server.Serve(l)
}
