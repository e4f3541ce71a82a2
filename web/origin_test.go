package web

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// neighbour is a server of somebody else, at an address that the page had, or will have.
func neighbour(t *testing.T, address string) (stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sw.js" {
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `self.addEventListener("install", () => self.skipWaiting()); self.addEventListener("activate", (e) => e.waitUntil(self.clients.claim())); self.addEventListener("fetch", (e) => e.respondWith(fetch(e.request)))`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><title>neighbour</title><body></body>`)
	})}
	go server.Serve(l)
	return func() { server.Close() }
}

// TestSameOrigin has somebody else serve the port of the page before it and after it. Who comes before leaves a worker in the browser, which the
// page does not keep; who comes after finds nothing that was of the page.
func TestSameOrigin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	leave := neighbour(t, address)
	b := browse(t, 1000, 700)
	b.Navigate("http://" + address + "/")
	b.Do(`navigator.serviceWorker.register("/sw.js").then(() => navigator.serviceWorker.ready).then(() => { window.there = true })`)
	b.Until(`window.there && navigator.serviceWorker.controller !== null`)
	leave()

	a := newAPIServer(t)
	a.fill(4)
	s, stop := startAt(t, a, research(), address)
	b.open(s.Link())
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Do(`window.left = -1; navigator.serviceWorker.getRegistrations().then((all) => { window.left = all.length })`)
	b.Until(`window.left === 0`)
	b.Do(`location.reload()`)
	b.Until(`document.querySelector("#age")?.innerText === "live" && navigator.serviceWorker.controller === null`)
	b.Do(`window.mine = "this page"`)
	stop()
	b.Until(`document.querySelector("#notes").innerText.includes("The server of this page has ended. Run berth ui and open its link.") && window.mine === "this page"`)

	defer neighbour(t, address)()
	b.Navigate("http://" + address + "/")
	b.Until(`document.title === "neighbour"`)
	b.Do(`window.kept = ""; indexedDB.databases().then((d) => caches.keys().then((c) => { window.kept = JSON.stringify([{ ...localStorage, theme: undefined }, { ...sessionStorage }, document.cookie, d, c]) }))`)
	b.Until(`window.kept !== ""`)
	if got := b.Text(`window.kept`); got != `[{},{},"",[],[]]` {
		t.Errorf("who serves the port after the page finds %s", got)
	}
}

// TestKeyEnds leaves a page alone for longer than its key lives. While somebody looks, it lives on.
func TestKeyEnds(t *testing.T) {
	a := newAPIServer(t)
	s, get := serve(t, a, research())
	pass := func(d time.Duration) {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		at := s.guard.now().Add(d)
		s.guard.now = func() time.Time { return at }
	}
	stream := get("/api/stream")
	v := view(t, stream.Body)
	v.until("the line", func() bool { return len(v.values[kindWorkload]) > 0 })
	for range 3 {
		pass(keyLife - time.Minute)
		s.table.put(map[string]map[string]json.RawMessage{"x": {"y": encode(random())}})
		v.until("a change", func() bool { return v.values["x"] != nil })
		delete(v.values, "x")
	}
	if r := get("/api/about"); r.StatusCode != http.StatusOK {
		t.Errorf("while a page is open: %s", r.Status)
	}
	stream.Body.Close()
	for end := time.Now().Add(20 * time.Second); s.viewers.Load() > 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	pass(keyLife - time.Minute)
	if r := get("/api/about"); r.StatusCode != http.StatusOK {
		t.Errorf("within the life of a key: %s", r.Status)
	}
	pass(keyLife + time.Minute)
	for range 2 {
		if r := get("/api/about"); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s after the key's life: %s", keyLife, r.Status)
		}
	}
}
