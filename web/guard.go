package web

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// guard lets in who had the link, and sets no cookie: browsers send a host's cookies to all of its ports, whoever serves them (ADR 225).
//
//	/?token=...   works once. Its answer is a lobby, which puts the path and the key into the storage of this origin, port included.
//	/PATH/        the page and its scripts: nothing of the cluster. The path cannot be guessed.
//	/PATH/api/... the cluster, for requests with the key in their header. The page alone adds it: no link, form, image or redirection does.
//	else          401, and a lobby for browsers, which goes on to the page where the origin has a key that still works.
type guard struct {
	hosts []string // that a browser may call this server by: no name that somebody else's DNS could point here
	path  string   // "/.../"
	key   string
	// entered is closed when the link was used.
	entered chan struct{}

	mu    sync.Mutex
	token string    // "": it was used
	used  time.Time // when somebody last came with the key, or was sent something
	now   func() time.Time
}

// keyLife is after how long without a page that is open the key is void: what a browser keeps for an origin, whoever serves that origin next
// can read (ADR 242).
const keyLife = 12 * time.Hour

// keyHeader has the key. Scripts of other origins cannot send it: browsers ask first (OPTIONS), and are refused.
const keyHeader = "Berth-Key"

func newGuard(address string) *guard {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		port = "0"
	}
	return &guard{
		hosts: []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port},
		path:  "/" + random() + "/", key: random(), token: random(), entered: make(chan struct{}),
		used: time.Now(), now: time.Now,
	}
}

func random() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// security is what every answer tells the browser: nothing from elsewhere, nothing to elsewhere, no frames, no guesses.
var security = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// Sentences for who is not let in.
const (
	sayElsewhere = "This page is for browsers on this machine, and for no other site."
	sayNoLink    = "Run `berth ui` again and open the link that it prints: each link works once."
	sayUsed      = "This link was used already, or is of another run. Run `berth ui` again and open the link that it prints."
	sayReads     = "The page only reads."
	sayEarly     = "This link is kept for a person to open."
	sayTunnel    = "This page answers at its own port alone, also through a tunnel: forward port %s of this machine from the same port of yours."
)

// in answers strangers itself, and hands on what is asked by who may.
func (g *guard) in(next http.Handler) http.Handler {
	page := http.StripPrefix(strings.TrimSuffix(g.path, "/"), next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range security {
			w.Header().Set(name, value)
		}
		switch {
		case !g.ours(r):
			http.Error(w, g.elsewhere(r), http.StatusForbidden)
		case r.URL.Path == "/" && r.URL.Query().Has("token") && reads(r):
			g.exchange(w, r)
		case !g.below(r):
			g.turnAway(w, r, http.StatusUnauthorized, sayNoLink)
		case g.asks(r) && !g.known(r):
			http.Error(w, sayNoLink, http.StatusUnauthorized)
		case !reads(r):
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, sayReads, http.StatusMethodNotAllowed)
		default:
			if g.asks(r) {
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			}
			page.ServeHTTP(w, r)
		}
	})
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// navigates says that a person opens the address, by hand or from wherever: what is shown then is for no script to read.
func navigates(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// ours says whether the request is for this origin and was made by it, or by a person.
func (g *guard) ours(r *http.Request) bool {
	ours := false
	for _, h := range g.hosts {
		ours = ours || r.Host == h
	}
	if origin := r.Header.Get("Origin"); !ours || origin != "" && origin != "http://"+r.Host {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// A link on another site may open the page: without the key, which navigation does not have, it says nothing of the cluster.
	return navigates(r) && !g.asks(r)
}

// elsewhere says why a request is not for this origin. One that came to another port of a loopback address came through a tunnel.
func (g *guard) elsewhere(r *http.Request) string {
	_, port, _ := net.SplitHostPort(g.hosts[0])
	for _, h := range g.hosts {
		name, _, _ := net.SplitHostPort(h)
		if asked, at, err := net.SplitHostPort(r.Host); err == nil && asked == name && at != port && navigates(r) {
			return fmt.Sprintf(sayTunnel, port)
		}
	}
	return sayElsewhere
}

// below says whether the request is for the page.
func (g *guard) below(r *http.Request) bool {
	p := r.URL.Path
	return len(p) >= len(g.path) && subtle.ConstantTimeCompare([]byte(p[:len(g.path)]), []byte(g.path)) == 1
}

// asks says whether the request is for what is known of the cluster.
func (g *guard) asks(r *http.Request) bool {
	return g.below(r) && strings.HasPrefix(r.URL.Path[len(g.path):], "api/")
}

func (g *guard) known(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(keyHeader)), []byte(g.key)) == 1 && g.touch()
}

// touch notes that the key is in use, unless it has been void since nobody used it.
func (g *guard) touch() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if now.Sub(g.used) > keyLife {
		return false
	}
	g.used = now
	return true
}

// exchange gives the path and the key for the token, once. What a browser fetches before anybody asked for it is no use.
func (g *guard) exchange(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") {
		http.Error(w, sayEarly, http.StatusServiceUnavailable)
		return
	}
	given := r.URL.Query().Get("token")
	g.mu.Lock()
	fits := g.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
	if fits && r.Method == http.MethodGet {
		g.token, g.used = "", g.now()
		close(g.entered)
	}
	g.mu.Unlock()
	if !fits {
		g.turnAway(w, r, http.StatusForbidden, sayUsed)
		return
	}
	lobby(w, http.StatusOK, "", pass{Path: g.path, Key: g.key})
}

// turnAway says why. A person's browser may have been let in before: the lobby looks.
func (g *guard) turnAway(w http.ResponseWriter, r *http.Request, code int, why string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") || !reads(r) {
		http.Error(w, why, code)
		return
	}
	lobby(w, code, why, pass{})
}

// pass is what a browser keeps for the page.
type pass struct {
	Path string `json:"path"`
	Key  string `json:"key"`
}

//go:embed lobby.html
var lobbyText []byte

// lobby answers with the page that keeps a pass, or looks for one.
func lobby(w http.ResponseWriter, code int, why string, p pass) {
	nonce := random()
	text := lobbyText
	before, rest, _ := strings.Cut(why, "`")
	if command, after, ok := strings.Cut(rest, "`"); ok {
		why = before + "<code>" + command + "</code>" + after
	}
	for name, value := range map[string]string{"NONCE": nonce, "WHY": why, "PASS": string(encode(p))} { // hexadecimal numbers, and sentences of ours
		text = bytes.ReplaceAll(text, []byte("{{"+name+"}}"), []byte(value))
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+nonce+"'; style-src 'nonce-"+nonce+"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write(text)
}
