package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/internal/selfsigned"
)

// proxy stands between one scheduler and the API server. In fair weather it passes everything on; otherwise it
// answers writes in the server's place, keeps the server's answers back, or hangs up.
type proxy struct {
	addr   string
	ca     []byte // PEM, of its certificate
	server *http.Server
	pass   *httputil.ReverseProxy
	count  func(what string)

	mu      sync.Mutex
	weather weather
	draws   *rand.Rand
	watches map[int]context.CancelFunc
	conns   map[net.Conn]bool
	opened  int
}

// weather is how a proxy treats requests: shares of writes from 0 to 1, of which at most one happens to each.
type weather struct {
	conflict, busy, broken float64 // answered with 409, 429, 500 and not passed on
	lost                   float64 // passed on, and the answer kept back
	dropped                float64 // neither passed on nor answered
	slow                   float64 // passed on after a while
	closed                 bool    // connections are refused
}

// newProxy serves on loopback what config reaches, with the rights of whoever calls.
func newProxy(config *rest.Config, seed uint64, count func(string)) (*proxy, error) {
	pass, err := forward(config)
	if err != nil {
		return nil, err
	}
	cert, ca, err := selfsigned.New(time.Now(), []string{"chaos"}, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{
		addr: l.Addr().String(), ca: ca, pass: pass, count: count, draws: rand.New(rand.NewPCG(seed, 1)),
		watches: make(map[int]context.CancelFunc), conns: make(map[net.Conn]bool),
	}
	p.server = &http.Server{Handler: p, ConnState: p.track, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"},
	}}
	go func() { _ = p.server.ServeTLS(door{l, p}, "", "") }()
	return p, nil
}

// forward passes requests on to what config reaches. Where that is not there, it hangs up.
func forward(config *rest.Config) (*httputil.ReverseProxy, error) {
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM(config.CAData) {
		return nil, errors.New("the cluster's kubeconfig names no authority")
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream); r.Out.Host = upstream.Host },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true},
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}, nil
}

// door hangs up on whoever knocks while the proxy is closed.
type door struct {
	net.Listener
	p *proxy
}

func (d door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil || !d.p.now().closed {
			return c, err
		}
		c.Close()
	}
}

func (p *proxy) track(c net.Conn, s http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s {
	case http.StateNew:
		p.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, c)
	}
}

func (p *proxy) now() weather {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather
}

// turn changes the weather. Closing also ends the connections that are open.
func (p *proxy) turn(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	if !w.closed {
		return
	}
	for c := range p.conns {
		c.Close()
	}
}

// cut ends every watch.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.watches {
		cancel()
		p.count("watch cut")
	}
}

func (p *proxy) close() { p.server.Close() }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		ctx, done := p.watching(r.Context())
		defer done()
		r = r.WithContext(ctx)
	}
	if r.Method == http.MethodGet {
		p.pass.ServeHTTP(w, r)
		return
	}
	p.write(w, r)
}

func (p *proxy) watching(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	id := p.opened
	p.watches[id] = cancel
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, id)
		cancel()
	}
}

// write passes a write on, or does to it what the weather says.
func (p *proxy) write(w http.ResponseWriter, r *http.Request) {
	what, wait := p.draw()
	if what != "" {
		p.count("write " + what)
	}
	switch what {
	case "conflict":
		answer(w, http.StatusConflict, "Conflict")
	case "busy":
		w.Header().Set("Retry-After", "1")
		answer(w, http.StatusTooManyRequests, "TooManyRequests")
	case "broken":
		answer(w, http.StatusInternalServerError, "InternalError")
	case "dropped":
		panic(http.ErrAbortHandler)
	case "lost":
		p.lose(r)
	case "slow":
		time.Sleep(wait)
		p.pass.ServeHTTP(w, r)
	default:
		p.pass.ServeHTTP(w, r)
	}
}

// draw decides what happens to a write.
func (p *proxy) draw() (what string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.draws.Float64()
	for _, c := range []struct {
		what  string
		share float64
	}{
		{"conflict", p.weather.conflict}, {"busy", p.weather.busy}, {"broken", p.weather.broken},
		{"lost", p.weather.lost}, {"dropped", p.weather.dropped}, {"slow", p.weather.slow},
	} {
		if x < c.share {
			return c.what, time.Duration(p.draws.Int64N(int64(3 * time.Second)))
		}
		x -= c.share
	}
	return "", 0
}

// lose carries the request out, whatever becomes of the caller, and hangs up.
func (p *proxy) lose(r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	p.pass.ServeHTTP(nowhere{make(http.Header)}, r.WithContext(ctx))
	panic(http.ErrAbortHandler)
}

// nowhere takes an answer that nobody gets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}

// answer writes an error as the API server would.
func answer(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"chaos","reason":%q,"code":%d}`, reason, code)
}
