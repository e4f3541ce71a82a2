package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"sync"
)

// guard lets in who had the link. The link has a token that works once: it is exchanged for a cookie that scripts cannot
// read and that browsers send from this origin alone. Ports of one host share cookies, so the cookie has the port in its name.
type guard struct {
	hosts  []string // that a browser may call this server by: no name that somebody else's DNS could point here
	cookie string
	secret string
	// entered is closed when the link was used.
	entered chan struct{}

	mu    sync.Mutex
	token string // "": it was used
}

func newGuard(address string) *guard {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		port = "0"
	}
	return &guard{
		hosts:  []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port},
		cookie: "berth-" + port, secret: random(), token: random(), entered: make(chan struct{}),
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

// in answers strangers itself, and hands on what is asked by who may.
func (g *guard) in(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range security {
			w.Header().Set(name, value)
		}
		switch {
		case !g.ours(r):
			http.Error(w, "This page is for browsers on this machine, and for no other site.", http.StatusForbidden)
		case r.URL.Path == "/" && r.URL.Query().Has("token") && reads(r):
			g.exchange(w, r)
		case !g.known(r):
			http.Error(w, "Run `berth ui` again and open the link that it prints: each link works once.", http.StatusUnauthorized)
		case !reads(r):
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "The page only reads.", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

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
	// A link on another site may open the page: it shows nothing without the cookie, which does not come with it.
	return r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func (g *guard) known(r *http.Request) bool {
	c, err := r.Cookie(g.cookie)
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(g.secret)) == 1
}

// exchange gives the cookie for the token, once. The page follows by itself and not by redirection, which some browsers count
// as coming from the site that had the link.
func (g *guard) exchange(w http.ResponseWriter, r *http.Request) {
	given := r.URL.Query().Get("token")
	g.mu.Lock()
	fits := g.token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(g.token)) == 1
	if fits && r.Method == http.MethodGet {
		g.token = ""
		close(g.entered)
	}
	g.mu.Unlock()
	if !fits && !g.known(r) {
		http.Error(w, "This link was used already, or is of another run. Run `berth ui` again and open the link that it prints.", http.StatusForbidden)
		return
	}
	if fits {
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write([]byte(strings.TrimSpace(entry)))
}

const entry = `<!doctype html><meta charset="utf-8"><title>Berth</title><meta http-equiv="refresh" content="0;url=/"><p><a href="/">Berth</a></p>`
