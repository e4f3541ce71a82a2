package shell

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

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
	size := int64(0)
	for _, d := range c.opts['d'] {
		size += 2 * budget.Size(len(d))
	}
	if err := c.mem.Take(size); err != nil {
		return nil, err
	}
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
	case u.Scheme == "https":
		return say(60, "SSL certificate problem: unable to get local issuer certificate")
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
