package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// GPU is what DCGM tells of a GPU's health.
type GPU struct {
	Node, UUID, Index string
	Xid               int  // the last one; 0: none
	Uncorrected       bool // errors of its memory that could not be corrected, since the driver was loaded
	RemapFailed       bool // no row was left to replace a bad one
	// Throttled is for how long heat has held its clock down since it was started; it grows. Hot is that it did for most of the last
	// minute, where the source tells that.
	Throttled time.Duration
	Hot       bool
}

// Health is what a source tells of the GPUs of nodes.
type Health struct {
	GPUs []GPU          // by node and UUID; of a Prometheus those alone of which there is something to tell
	Seen map[string]int // by node that was read: how many GPUs there were metrics of
}

// HealthSource is a Source that tells of the health of GPUs too.
type HealthSource interface {
	Health(ctx context.Context, nodes []string) (Health, error)
}

// The metrics of DCGM's exporter that tell of broken GPUs. The first and the third are in its default list.
const (
	xidErrors   = "DCGM_FI_DEV_XID_ERRORS"
	uncorrected = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" // the volatile count: a driver that is loaded anew begins at 0
	remapFailed = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
	throttled   = "DCGM_FI_DEV_THERMAL_VIOLATION" // ns
)

func tellsHealth(name string) bool {
	return name == xidErrors || name == uncorrected || name == remapFailed || name == throttled
}

// wards collects GPUs from samples, by node and UUID: instances of MIG have samples of their own.
type wards map[[2]string]*GPU

// add takes in a sample of the node. Values that cannot be one, such as DCGM's marks for "not supported", are passed over.
func (w wards) add(node string, s doctor.Sample) {
	uuid := s.Labels["UUID"]
	if node == "" || uuid == "" || len(uuid) > maxUUID || !tellsHealth(s.Name) || math.IsNaN(s.Value) || s.Value < 0 || s.Value >= blankOf(s.Name) {
		return
	}
	g := w[[2]string{node, uuid}]
	if g == nil {
		g = &GPU{Node: node, UUID: uuid, Index: s.Labels["gpu"]}
		w[[2]string{node, uuid}] = g
	}
	switch s.Name {
	case xidErrors:
		if s.Value <= maxXid {
			g.Xid = max(g.Xid, int(s.Value))
		}
	case uncorrected:
		g.Uncorrected = g.Uncorrected || s.Value > 0
	case remapFailed:
		g.RemapFailed = g.RemapFailed || s.Value > 0
	case throttled:
		g.Throttled = max(g.Throttled, time.Duration(s.Value))
	}
}

// blankOf is the least of DCGM's marks for values that are not there: DCGM_INT32_BLANK is above every error and count, and times, in
// ns, are below DCGM_INT64_BLANK.
func blankOf(name string) float64 {
	if name == throttled {
		return 0x7ffffffffffffff0
	}
	return 0x7ffffff0
}

const (
	maxXid  = 1 << 16
	maxUUID = 128
)

func (w wards) gpus() []GPU {
	out := make([]GPU, 0, len(w))
	for _, g := range w { //archtest:any-order sorted below
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b GPU) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.UUID, b.UUID))
	})
	return out
}

// Health implements HealthSource. An exporter speaks for its own node, whatever it writes.
func (e *Exporters) Health(ctx context.Context, nodes []string) (Health, error) {
	out, all := Health{Seen: make(map[string]int)}, make(wards)
	err := e.each(ctx, nodes, tellsHealth, func(node string, samples []doctor.Sample) {
		for _, s := range samples {
			all.add(node, s)
		}
		out.Seen[node] = 0
	})
	out.GPUs = all.gpus()
	for _, g := range out.GPUs {
		out.Seen[g.Node]++
	}
	return out, err
}

// The questions to a Prometheus: which GPUs have something, which are held down by heat for more than half of the last minute, and how
// many GPUs of each node there are metrics of. The unit of the violation is that of DCGM 3 and later, ns.
const (
	askBroken = `{__name__=~"` + xidErrors + `|` + uncorrected + `|` + remapFailed + `"} > 0`
	askHot    = `increase(` + throttled + `[1m]) > 3e10`
	askSeen   = `count by (Hostname, hostname, node) (` + xidErrors + `)`
)

// Health implements HealthSource. It asks about all nodes.
func (p *Prometheus) Health(ctx context.Context, _ []string) (Health, error) {
	out, all := Health{Seen: make(map[string]int)}, make(wards)
	broken, err := p.ask(ctx, askBroken)
	if err != nil {
		return out, err
	}
	hot, err := p.ask(ctx, askHot)
	if err != nil {
		return out, err
	}
	seen, err := p.ask(ctx, askSeen)
	if err != nil {
		return out, err
	}
	for _, s := range broken {
		all.add(nodeOf(s.Labels), s)
	}
	for _, s := range hot {
		s.Name = throttled // a function drops the name
		node := nodeOf(s.Labels)
		all.add(node, s)
		if g := all[[2]string{node, s.Labels["UUID"]}]; g != nil {
			g.Hot, g.Throttled = true, 0
		}
	}
	for _, s := range seen {
		if node := nodeOf(s.Labels); node != "" && s.Value > 0 && s.Value < 1<<20 {
			out.Seen[node] += int(s.Value)
		}
	}
	out.GPUs = all.gpus()
	return out, nil
}

// nodeOf is the node of a sample: the exporter writes its node's name as hostname, Hostname before version 4, and the GPU Operator's
// ServiceMonitor adds node.
func nodeOf(labels map[string]string) string {
	return cmp.Or(labels["hostname"], labels["Hostname"], labels["node"])
}

// ask is the answer to a query.
func (p *Prometheus) ask(ctx context.Context, query string) ([]doctor.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*scrapeFor)
	defer cancel()
	at := p.URL.JoinPath("api/v1/query")
	at.RawQuery = url.Values{"query": {query}}.Encode()
	body, err := get(ctx, p.Client, at.String())
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	defer body.Close()
	samples, err := parseVector(io.LimitReader(body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return samples, nil
}
