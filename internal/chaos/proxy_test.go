package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// What a caller gets, and whether the server was asked, in every weather.
func TestWeather(t *testing.T) {
	for _, c := range []struct {
		name    string
		weather weather
		method  string
		answer  string // status and Retry-After; "": none
		asked   bool
	}{
		{"fair", weather{}, "POST", "201 ", true},
		{"conflict", weather{conflict: 1}, "POST", "409 ", false},
		{"busy", weather{busy: 1}, "PUT", "429 1", false},
		{"broken", weather{broken: 1}, "PATCH", "500 ", false},
		{"the answer is lost", weather{lost: 1}, "POST", "", true},
		{"the request is lost", weather{dropped: 1}, "POST", "", false},
		{"slow", weather{slow: 1}, "POST", "201 ", true},
		{"reading is not touched", weather{conflict: 1}, "GET", "201 ", true},
		{"closed", weather{closed: true}, "GET", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Bool
			p, client := behind(t, func(w http.ResponseWriter, _ *http.Request) {
				asked.Store(true)
				w.WriteHeader(http.StatusCreated)
			})
			p.turn(c.weather)
			if diff := cmp.Diff(c.answer, send(client, c.method, "https://"+p.addr+"/x")); diff != "" {
				t.Error(diff)
			}
			if asked.Load() != c.asked {
				t.Errorf("the server was asked: %v, want %v", asked.Load(), c.asked)
			}
		})
	}
}

func TestCutEndsWatches(t *testing.T) {
	gone := make(chan struct{})
	p, client := behind(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "event")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	answer, err := client.Get("https://" + p.addr + "/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	event := make([]byte, 6)
	if _, err := answer.Body.Read(event); err != nil || string(event) != "event\n" {
		t.Fatalf("got %q, %v", event, err)
	}
	p.cut()
	if _, err := answer.Body.Read(event); err == nil {
		t.Error("the watch goes on")
	}
	<-gone
}

// behind is a server with a proxy before it, and a client of the proxy.
func behind(t *testing.T, h http.HandlerFunc) (*proxy, *http.Client) {
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p, err := newProxy(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, 1, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(p.ca)
	return p, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true}}
}

func send(client *http.Client, method, url string) string {
	r, err := http.NewRequest(method, url, strings.NewReader("{}"))
	if err != nil {
		return err.Error()
	}
	answer, err := client.Do(r)
	if err != nil {
		return ""
	}
	answer.Body.Close()
	return fmt.Sprintf("%d %s", answer.StatusCode, answer.Header.Get("Retry-After"))
}
