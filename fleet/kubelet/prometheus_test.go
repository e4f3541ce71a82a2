package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// freePort is one that nobody listens on.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A Prometheus as people run it scrapes an exporter, and has a value for each GPU under the labels that dashboards ask for.
func TestPrometheusScrapes(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (package prometheus of Debian)")
	}
	exporter := httptest.NewServer(scraped(t, 1)[0])
	defer exporter.Close()
	dir, address := t.TempDir(), freePort(t)
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs: [{job_name: gpu, scrape_interval: 1s, static_configs: [{targets: [%q]}]}]\n", strings.TrimPrefix(exporter.URL, "http://"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	server := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address="+address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = server.Wait() }()
	const query = `count(DCGM_FI_DEV_GPU_UTIL{Hostname="n0",modelName="NVIDIA H100 80GB HBM3",exported_pod=~"train-.*",exported_namespace="default"}) or count(DCGM_FI_DEV_GPU_UTIL{Hostname="n0",pod=~"train-.*",namespace="default"})`
	for {
		got, err := ask(ctx, "http://"+address+"/api/v1/query", query)
		if got == "8" {
			return
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("Prometheus counts %q GPUs, %v", got, err)
		}
	}
}

// ask is the one value that a query of Prometheus answers with.
func ask(ctx context.Context, at, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader("query="+strings.NewReplacer("%", "%25", "+", "%2B", "&", "%26").Replace(query)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data.Result) != 1 {
		return string(body), err
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}
