package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestSlowStrangers has strangers open connections and say nothing, half of a request, or one whose body never comes. The page is served
// meanwhile, and they are hung up on: each takes a file of the process, of which there are not many.
func TestSlowStrangers(t *testing.T) {
	a := newAPIServer(t)
	a.fill(16)
	s, get := serve(t, a, research())
	address := s.listener.Addr().String()
	v := view(t, get("/api/stream").Body)
	v.until("the fleet", func() bool { return len(v.values[kindNode]) == 16 })
	var all sync.WaitGroup
	began, slow := time.Now(), make(chan string, 600)
	for i := range 600 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		said := []string{"", "GET / HTTP/1.1\r\nHost: " + address + "\r\nX-Slow: ", "POST /?token=x HTTP/1.1\r\nHost: " + address + "\r\nContent-Length: 1000\r\n\r\n{", "GET " + s.guard.path + "app.js HTTP/1.1\r\nHost: " + address + "\r\nContent-Length: 9\r\n\r\n"}[i%4]
		io.WriteString(c, said)
		all.Go(func() {
			c.SetReadDeadline(began.Add(3 * requestWithin))
			if _, err := io.Copy(io.Discard, c); err != nil {
				slow <- fmt.Sprintf("%.30q: %v", said, err)
			}
		})
	}
	for _, path := range []string{"/api/about", "/api/table", "/app.js"} {
		asked := time.Now()
		if r := get(path); r.StatusCode != http.StatusOK || time.Since(asked) > 5*time.Second {
			t.Errorf("%s with slow strangers about: %s after %s", path, r.Status, time.Since(asked))
		}
	}
	all.Wait()
	close(slow)
	n := 0
	for what := range slow {
		if n++; n <= 4 {
			t.Errorf("still served after %s: %s", time.Since(began).Round(time.Second), what)
		}
	}
	a.put("pods", gpuPod("team-0", "arrives", "gpu-0004", 8))
	v.until("a change, on the stream from before", v.has(kindNode, "gpu-0004", "arrives"))
}
