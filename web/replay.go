package web

import (
	"context"
	"net/url"
	"time"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
)

// mostParts bounds the points of a chart.
const mostParts = 720

// pastRow is a part of a span. GPUs are averages over what was seen of it, and null where nothing was.
type pastRow struct {
	At        int64    `json:"at"` // its end, in milliseconds
	GPUs      *float64 `json:"gpus"`
	Held      *float64 `json:"held"`
	Waiting   *float64 `json:"waiting"` // GPUs that waiting work asked for
	Preempted int64    `json:"preempted"`
	Lost      float64  `json:"lost"` // GPU-hours of work to do again
}

// waited is how many seconds work waited which began: how many of it, and the percentiles.
type waited struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// pastOf is a span of the decision log in parts.
func (s *desk) pastOf(ctx context.Context, q url.Values) (any, error) {
	from, to, err := timesOf(q)
	if err != nil {
		return nil, err
	}
	parts, err := number(q, "parts", 1, mostParts)
	if err != nil {
		return nil, err
	}
	if !from.Before(to) {
		return nil, badQuestion("from is not before to")
	}
	p, since, err := s.questions.Past(ctx, from, to, int(parts))
	if err != nil {
		return nil, err
	}
	out := struct {
		Since  int64     `json:"since"` // of the log
		Points []pastRow `json:"points"`
		Waits  waited    `json:"waits"`
	}{Since: since.UnixMilli(), Points: []pastRow{}, Waits: waitedOf(p.Waits)}
	for i := range p.Points {
		out.Points = append(out.Points, pastRowOf(&p.Points[i]))
	}
	return out, nil
}

func pastRowOf(p *bill.Point) pastRow {
	row := pastRow{At: p.At.UnixMilli(), Preempted: p.Preempted, Lost: float64(p.Lost) / bill.Hour}
	if p.Seen > 0 {
		mean := func(n int64) *float64 { v := float64(n) / float64(p.Seen) / 1000; return &v }
		row.GPUs, row.Held, row.Waiting = mean(p.Used+p.Unused), mean(p.Used), mean(p.Waiting)
	}
	return row
}

func waitedOf(sorted []int64) waited {
	at := func(percent int) float64 {
		if len(sorted) == 0 {
			return 0
		}
		return float64(sorted[(len(sorted)-1)*percent/100]) / 1000
	}
	return waited{len(sorted), at(50), at(90), at(95), at(99)}
}

// momentRow is the cluster at one time, in the form of the table: the page draws it as it draws the present.
type momentRow struct {
	At        int64              `json:"at"`
	Nodes     map[string]*node   `json:"nodes"`
	Workloads map[string]workRow `json:"workloads"`
	Sum       sumRow             `json:"sum"`
}

type workRow struct {
	Title   string  `json:"title"`
	Queue   string  `json:"queue,omitempty"`
	Held    float64 `json:"held"`
	Waiting float64 `json:"waiting"`
	Nodes   int     `json:"nodes"`
}

type sumRow struct {
	At          int64   `json:"at"`
	Nodes       int     `json:"nodes"`
	GPUs        int64   `json:"gpus"`
	Held        float64 `json:"held"`
	Waiting     float64 `json:"waiting"`
	Running     int     `json:"running"`
	WaitingWork int     `json:"waitingWork"`
}

func sumRowOf(s bill.Sum) sumRow {
	return sumRow{s.At.UnixMilli(), s.Nodes, s.GPUs, float64(s.Held) / 1000, float64(s.Waiting) / 1000, s.Running, s.WaitingWork}
}

func workRowOf(w bill.Work) workRow {
	return workRow{Title: w.Key, Queue: w.Queue, Held: float64(w.Held) / 1000, Waiting: float64(w.Waiting) / 1000, Nodes: w.Nodes}
}

func (s *desk) moment(ctx context.Context, q url.Values) (any, error) {
	at, err := number(q, "at", 0, 1<<52)
	if err != nil {
		return nil, err
	}
	all, err := s.questions.Moments(ctx, time.UnixMilli(at))
	if err != nil {
		return nil, err
	}
	m := &all[0]
	out := momentRow{At: at, Nodes: make(map[string]*node), Workloads: make(map[string]workRow), Sum: sumRowOf(m.Sum())}
	for i := range m.Nodes {
		out.Nodes[m.Nodes[i].Node.Name] = pastNode(&m.Nodes[i])
	}
	for _, w := range m.Work {
		out.Workloads[w.Key] = workRowOf(w)
	}
	return out, nil
}

// pastNode draws a machine as it was. A log does not say which of the GPUs a pod had: the first ones are drawn as held.
func pastNode(m *bill.Machine) *node {
	n := nodeOf(m.Node.Labels, m.Node.Labels[v1alpha1.LabelPool])
	left := m.GPUs
	part := int64(0) // of the GPU that several have
	for _, h := range m.Holds {
		whole := (part + h.GPUs + 999) / 1000
		shared := part > 0
		part = (part + h.GPUs) % 1000
		if shared {
			whole--
		}
		whole = min(whole, left)
		left -= whole
		if whole > 0 {
			n.GPUs = append(n.GPUs, run{N: int(whole), Stage: capacity.Allocated.String(), Pods: []string{h.Pod}, Work: h.Work})
		}
	}
	for _, l := range m.Left(left) {
		n.GPUs = append(n.GPUs, run{N: int(l.GPUs), Stage: l.Stage.String(), Cause: pastCause(l.Stage, m)})
	}
	return n
}

// pastCause is why GPUs of a machine came no further, as far as a log tells.
func pastCause(s capacity.Stage, m *bill.Machine) string {
	switch {
	case s == capacity.Registered:
		return "node-not-ready"
	case s == capacity.Ready:
		return "device-not-advertised"
	case s == capacity.Advertised:
		return "gpu-unhealthy"
	case s != capacity.Healthy:
		return ""
	case m.Node.Quarantine != "":
		return "node-quarantined"
	case m.Node.Cordoned:
		return "node-cordoned"
	}
	return "node-pressure"
}

// difference is what two instants differ in.
func (s *desk) difference(ctx context.Context, q url.Values) (any, error) {
	from, to, err := timesOf(q)
	if err != nil {
		return nil, err
	}
	all, err := s.questions.Moments(ctx, from, to)
	if err != nil {
		return nil, err
	}
	type changed struct {
		Key    string  `json:"key"`
		What   string  `json:"what"`
		Before workRow `json:"before"`
		After  workRow `json:"after"`
	}
	out := struct {
		Before sumRow    `json:"before"`
		After  sumRow    `json:"after"`
		Work   []changed `json:"work"`
		Came   []string  `json:"came"` // nodes
		Went   []string  `json:"went"`
	}{Before: sumRowOf(all[0].Sum()), After: sumRowOf(all[1].Sum()), Work: []changed{}, Came: nodesBut(&all[1], &all[0]), Went: nodesBut(&all[0], &all[1])}
	for _, c := range bill.Difference(&all[0], &all[1]) {
		out.Work = append(out.Work, changed{c.Key, c.What, workRowOf(c.Before), workRowOf(c.After)})
	}
	return out, nil
}

// nodesBut are the nodes of one moment that another has not.
func nodesBut(m, other *bill.Moment) []string {
	out, has := []string{}, make(map[string]bool)
	for i := range other.Nodes {
		has[other.Nodes[i].Node.Name] = true
	}
	for i := range m.Nodes {
		if name := m.Nodes[i].Node.Name; !has[name] {
			out = append(out, name)
		}
	}
	return out
}
