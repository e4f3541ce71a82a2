package scheduler

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/telemetry"
)

// TestPrometheusWithAToken is asked with the token of the file, held to the certificate of the other, and nobody else gets the token.
func TestPrometheusWithAToken(t *testing.T) {
	told := ""
	thief := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told = r.Header.Get("Authorization") }))
	defer thief.Close()
	elsewhere := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case elsewhere:
			http.Redirect(w, r, thief.URL, http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","namespace":"ns","pod":"x"},"value":[1,"7"]}]}}`)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	token, authority := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "secret\n")
	write(authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	read := func(o GPUMetrics) ([]telemetry.Reading, error) {
		client, err := o.client()
		if err != nil {
			return nil, err
		}
		return (&telemetry.Prometheus{Client: client, URL: at}).Read(context.Background(), nil)
	}
	if got, err := read(GPUMetrics{TokenFile: token, CAFile: authority}); err != nil || len(got) != 1 || got[0].Pod != "x" {
		t.Errorf("%v %v", got, err)
	}
	for name, o := range map[string]GPUMetrics{
		"without the token":       {CAFile: authority},
		"without the certificate": {TokenFile: token},
		"no such file":            {TokenFile: token, CAFile: filepath.Join(dir, "none")},
	} {
		if got, err := read(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	elsewhere = true
	if got, err := read(GPUMetrics{TokenFile: token, CAFile: authority}); err == nil || told != "" {
		t.Errorf("redirected: %v %v, and the token went to %q", got, err, told)
	}
}
