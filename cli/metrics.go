package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/kube/exposition"
)

// metricsWithin is how long one exporter may take to answer.
const metricsWithin = 10 * time.Second

// readMetrics reads files, URLs and standard input; nil where there are none. What was named and cannot be read is an
// error: a GPU whose exporter is silent is not a GPU without errors.
func readMetrics(ctx context.Context, s Streams, sources []string) ([]doctor.Sample, error) {
	var out []doctor.Sample
	start := time.Now()
	for i, source := range sources {
		if isTerminal(s.Err) && time.Since(start) > quietFor {
			fmt.Fprintf(s.Err, eraseLine+"reading metrics: %d of %d", i+1, len(sources))
		}
		samples, err := readSource(ctx, s, source)
		if err != nil {
			return nil, fmt.Errorf("metrics of %s: %w", source, err)
		}
		out = append(out, samples...)
	}
	if isTerminal(s.Err) && time.Since(start) > quietFor {
		fmt.Fprint(s.Err, eraseLine)
	}
	return out, nil
}

func readSource(ctx context.Context, s Streams, source string) ([]doctor.Sample, error) {
	if source == "-" {
		return exposition.Read(s.In, doctor.Reads)
	}
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		return scrape(ctx, source)
	}
	f, err := os.Open(source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return exposition.Read(f, doctor.Reads)
}

func scrape(ctx context.Context, url string) ([]doctor.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	// An exporter that redirects is not followed: it could have this machine ask any other that it reaches.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
		return nil, fmt.Errorf("the exporter answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return exposition.Read(resp.Body, doctor.Reads)
}
