package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestOtherPorts has other servers of this machine look at all that a browser sends them, on each of the addresses that it knows of the
// page, and ask the page with it. Cookies go to all ports of a host, and whoever may bind a port on loopback may be asked for.
func TestOtherPorts(t *testing.T) {
	a := newAPIServer(t)
	a.fill(4)
	q := research()
	q.steps = told(4, time.Now().Add(-time.Hour), time.Now())
	s, stop := startAt(t, a, q, "127.0.0.1:0")
	address := s.listener.Addr().String()
	var mu sync.Mutex
	var heard []http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		heard = append(heard, r.Header.Clone())
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>other</title><script>
			window.found = []; window.asked = 0;
			const ask = (how, p) => p.then((v) => { if (v) found.push(how + ": " + v) }, () => {}).finally(() => { window.asked++ });
			for (const at of [%q, %q]) {
				ask("fetch", fetch(at + "api/table").then((r) => r.text()));
				ask("with a header", fetch(at + "api/table", { headers: { "Berth-Key": "0" } }).then((r) => r.text()));
				ask("with what the host has", fetch(at + "api/table", { mode: "no-cors", credentials: "include" }).then((r) => r.text()));
				ask("module", import(at + "store.js").then((m) => Object.keys(m).join()));
				ask("frame", new Promise((done) => { const f = document.createElement("iframe"); f.src = at; f.onload = () => { let t = ""; try { t = f.contentDocument?.title } catch {} done(t === "Berth" ? t : "") }; document.documentElement.append(f) }));
			}
			if (localStorage.length || sessionStorage.length || document.cookie) found.push("kept: " + JSON.stringify(localStorage) + document.cookie);
		</script>`, "http://"+address+"/", "http://"+address+s.guard.path)
	}))
	defer other.Close()

	b := browse(t, 1280, 800)
	b.open(s.Link())
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("32 GPUs on 4 nodes") && document.querySelector("#age").innerText === "live"`)
	if got := b.Text(`location.pathname + location.search`); got != s.guard.path {
		t.Errorf("the page is at %s", got)
	}
	for _, path := range []string{"/", s.guard.path, s.guard.path + "api/about", s.guard.path + "api/stream"} {
		b.Navigate(other.URL + path)
		b.Until(`window.asked === 10`)
		if found := b.Text(`window.found.join("; ")`); found != "" {
			t.Errorf("on %s another port found %.300s", path, found)
		}
	}
	for _, h := range heard {
		for _, path := range []string{"/", "/api/table", s.guard.path + "api/table", s.guard.path + "api/about"} {
			r, _ := http.NewRequest("GET", "http://"+address+path, nil)
			r.Header = h.Clone()
			for _, own := range []string{"Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Accept-Encoding"} {
				r.Header.Del(own) // a program sends what it likes
			}
			answer, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusUnauthorized || strings.Contains(string(text), "gpu-000") {
				t.Errorf("%s with what another port was sent: %d %.100s", path, answer.StatusCode, text)
			}
		}
	}

	// The page itself goes on working: the back button, a reload, what is looked at, a second tab, the bare address, and the link again.
	for _, at := range []string{s.guard.path + "#queues?q=llama", "/#queues?q=llama", strings.TrimPrefix(s.Link(), "http://"+address) + "used#queues?q=llama"} {
		b.Navigate(other.URL) // a new hash alone loads nothing
		b.Navigate("http://" + address + at)
		b.Until(`document.querySelector("table.line tbody")?.innerText.includes("job/llama") && document.querySelector("input[type=search]").value === "llama" && document.querySelector("#age").innerText === "live"`)
		if got := b.Text(`location.pathname`); got != s.guard.path {
			t.Errorf("%s leads to %s", at, got)
		}
	}
	b.Do(`location.reload()`)
	b.Until(`document.querySelector("table.line tbody")?.innerText.includes("job/llama")`)

	// Another browser, or another name of this machine, has no key, and says so rather than that it had one.
	b.Navigate("http://" + strings.Replace(address, "127.0.0.1", "localhost", 1) + s.guard.path)
	b.Until(`document.querySelector("#notes")?.innerText.includes("This browser has no key for the page")`)
	b.Navigate("http://" + address + "/#queues?q=llama")
	b.Until(`document.querySelector("table.line tbody")?.innerText.includes("job/llama")`)

	// CSV is saved by the page, since a link has no key.
	b.Do(`window.saved = []; const make = URL.createObjectURL; URL.createObjectURL = (blob) => { blob.text().then((t) => saved.push(t)); return make(blob) }`)
	b.goTo("ledger")
	b.Until(`document.querySelectorAll("main button[title^='Save berth-']").length === 2`)
	b.Do(`for (const e of document.querySelectorAll("main button[title^='Save berth-']")) e.click()`)
	b.Until(`window.saved.length === 2 && window.saved.some((t) => t === "pool,paid\na,8\n") && window.saved.some((t) => t.startsWith("BilledCost"))`)

	// Another server has the port now. Its page is not this one's, and says what to do; once its link was opened, old addresses lead there.
	stop()
	again, _ := startAt(t, a, research(), address)
	b.Until(`document.querySelector("#notes").innerText.includes("the server was started again")`)
	b.Do(fmt.Sprintf(`window.kept = localStorage.berth; localStorage.berth = '{"path":%q,"key":%q}'`, again.guard.path, again.guard.key)) // as another tab does
	b.Until(fmt.Sprintf(`location.pathname === %q && location.hash.startsWith("#ledger") && document.querySelector("#age")?.innerText === "live"`, again.guard.path))
	b.Do(fmt.Sprintf(`localStorage.berth = '{"path":%q,"key":%q}'`, s.guard.path, s.guard.key))
	b.Navigate(other.URL)
	b.Navigate("http://" + address + s.guard.path + "#queues")
	b.Until(`document.body.innerText.includes("Run berth ui again and open the link that it prints")`)
	b.keep("lobby")
	b.open(again.Link())
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Navigate(other.URL)
	b.Navigate("http://" + address + s.guard.path + "#queues")
	b.Until(`document.querySelector("table.line tbody")?.innerText.includes("job/llama")`)
	if got := b.Text(`location.pathname`); got != again.guard.path {
		t.Errorf("a bookmark of the server before leads to %s", got)
	}
}
