package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Whoever answers for an exporter or a Prometheus cannot have the scheduler ask another server, which only the scheduler may reach.
func TestNobodyIsAskedForAnother(t *testing.T) {
	asked := 0
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintln(w, `DCGM_FI_DEV_GPU_UTIL{namespace="ns",pod="x"} 0`)
	}))
	defer inner.Close()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		outer := httptest.NewServer(http.RedirectHandler(inner.URL+"/latest/meta-data", code))
		u, err := ParseURL(outer.URL)
		if err != nil {
			t.Fatal(err)
		}
		exporters := &Exporters{Client: outer.Client(), Pages: func([]string) map[string]string { return map[string]string{"n": outer.URL} }, On: func(_, _, _ string) bool { return true }}
		prometheus := &Prometheus{Client: outer.Client(), URL: u}
		for name, ask := range map[string]func() error{
			"exporters":              func() error { _, err := exporters.Read(context.Background(), []string{"n"}); return err },
			"health of exporters":    func() error { _, err := exporters.Health(context.Background(), []string{"n"}); return err },
			"prometheus":             func() error { _, err := prometheus.Read(context.Background(), nil); return err },
			"health of a prometheus": func() error { _, err := prometheus.Health(context.Background(), nil); return err },
		} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), fmt.Sprint("status ", code)) || strings.Contains(err.Error(), "meta-data") {
				t.Errorf("%s: status %d: %v", name, code, err)
			}
		}
		outer.Close()
	}
	if asked > 0 {
		t.Errorf("the other server was asked %d times", asked)
	}
}

// An exporter that writes without end is cut off by its size, long before its time is over, and the others are read.
func TestPagesWithoutEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/b" {
			fmt.Fprintln(w, `DCGM_FI_DEV_GPU_UTIL{namespace="ns",pod="x"} 5`)
			return
		}
		for r.Context().Err() == nil {
			if _, err := fmt.Fprint(w, strings.Repeat("DCGM_FI_DEV_GPU_UTIL{namespace=\"ns\",pod=\"x\"} 0\n", 1000)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	e := &Exporters{Client: server.Client(), Pages: func(nodes []string) map[string]string {
		return map[string]string{"a": server.URL + "/a", "b": server.URL + "/b"}
	}, On: func(_, _, node string) bool { return node == "b" }}
	began := time.Now()
	got, err := e.Read(context.Background(), []string{"a", "b"})
	if len(got) != 1 || got[0].Percent != 5 {
		t.Errorf("%v %v", got, err)
	}
	if err == nil || !strings.Contains(err.Error(), "node a: ") {
		t.Errorf("a page without end is no error: %v", err)
	}
	if took := time.Since(began); took > 2*scrapeFor {
		t.Errorf("it took %v", took)
	}
}
