package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// Prometheus reads from a server of Prometheus' HTTP API: Prometheus itself, Thanos, Mimir, VictoriaMetrics.
type Prometheus struct {
	Client *http.Client
	URL    *url.URL // as people write it, with or without a path below which the API is
}

// query has, of each pod, the busiest GPU of the last minute: nothing between two looks is missed where there is one at least every minute.
const query = `max by (__name__, namespace, pod, exported_namespace, exported_pod) (max_over_time({__name__=~"` + utilisation + `|` + active + `"}[1m]))`

// maxAnswer is the most bytes of an answer: 40,000 GPUs have about 20 MB.
const maxAnswer = 128 << 20

// Read implements Source. It asks once for all nodes.
func (p *Prometheus) Read(ctx context.Context, _ []string) ([]Reading, error) {
	samples, err := p.ask(ctx, query)
	if err != nil {
		return nil, err
	}
	all := make(busiest)
	for _, s := range samples {
		all.add(s)
	}
	return all.readings(), nil
}

// parseVector reads the answer to a query, which is a vector: {"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[0,"1"]}]}}.
func parseVector(r io.Reader) ([]doctor.Sample, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, fmt.Errorf("this is no answer of its API: %w", err)
	}
	if answer.Status != "success" || answer.Data.ResultType != "vector" {
		return nil, fmt.Errorf("status %q, result %q: %s", answer.Status, answer.Data.ResultType, answer.Error)
	}
	out := make([]doctor.Sample, 0, len(answer.Data.Result))
	for _, m := range answer.Data.Result {
		text, _ := m.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("value %q of %s is no number", text, m.Metric["__name__"])
		}
		out = append(out, doctor.Sample{Name: m.Metric["__name__"], Labels: m.Metric, Value: value})
	}
	return out, nil
}

// ParseURL reads the address of a server as people write it.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q: give the URL of a Prometheus, such as http://prometheus.monitoring:9090", strings.TrimSpace(text))
	}
	return u, nil
}
