package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/kube/exposition"
)

// Exporters reads the exporter of each node by itself.
type Exporters struct {
	Client *http.Client
	// Pages are the addresses of the exporters' pages, by node; a node without one has no readings.
	Pages func(nodes []string) map[string]string
	// On says whether the pod is on the node. An exporter speaks for the pods of its own node alone.
	On func(namespace, pod, node string) bool
}

const (
	// scrapers bound the pages that are read at a time.
	scrapers = 16
	// scrapeFor is how long an exporter may take.
	scrapeFor = 5 * time.Second
	// maxPage is the most bytes of one page, as unpacked: 16 GPUs in 7 parts each have about 1 MB. A page of nothing but the shortest samples
	// takes 20 times its size while it is read.
	maxPage = 4 << 20
)

// Read implements Source. Exporters that do not answer are an error beside the readings of the others.
func (e *Exporters) Read(ctx context.Context, nodes []string) ([]Reading, error) {
	all := make(busiest)
	err := e.each(ctx, nodes, Wanted, func(node string, samples []doctor.Sample) {
		for _, s := range samples {
			if e.On(holder(s.Labels, "namespace"), holder(s.Labels, "pod"), node) {
				all.add(s)
			}
		}
	})
	return all.readings(), err
}

// each reads the pages of the nodes and gives take what was kept of each, one at a time and in no order. It returns an error of one that
// does not answer.
func (e *Exporters) each(ctx context.Context, nodes []string, keep func(string) bool, take func(node string, samples []doctor.Sample)) error {
	var mu sync.Mutex
	var failed error
	var group sync.WaitGroup
	slots := make(chan struct{}, scrapers)
	for node, page := range e.Pages(nodes) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			samples, err := e.scrape(ctx, page, keep)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = fmt.Errorf("exporter of node %s: %w", node, err)
				return
			}
			take(node, samples)
		})
	}
	group.Wait()
	return failed
}

func (e *Exporters) scrape(ctx context.Context, page string, keep func(string) bool) ([]doctor.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeFor)
	defer cancel()
	body, err := get(ctx, e.Client, page)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return exposition.Read(io.LimitReader(body, maxPage), keep)
}

// get is the body of an answer that is well. A redirection is none: whoever answers for an exporter, or for Prometheus, could have the
// scheduler ask any server that it reaches, and a token is for the server that was named and for no other.
func get(ctx context.Context, client *http.Client, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	here := *client
	here.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := here.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("status %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)) // the server's own words may be anything
	}
	return answer.Body, nil
}
