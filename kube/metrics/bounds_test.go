package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/engine"
)

// values collects what a part of the figures sets.
func values(collect func(setter)) map[string]float64 {
	got := make(map[string]float64)
	collect(func(m Metric, v float64, labels ...string) { got[fmt.Sprint(m.Name, labels)] = v })
	return got
}

// A hundred users who each hold something, and one who is called "other": series for the 20 who hold most.
func TestUsersBeyondTheFirstAreOther(t *testing.T) {
	f := Figures{Tallies: []engine.Tally{{User: other, Held: 1000}}}
	for i := range 100 {
		f.Tallies = append(f.Tallies, engine.Tally{User: fmt.Sprintf("u%03d", i), Held: int64(100 + i)})
	}
	got := values(f.users)
	var sum float64
	for _, v := range got {
		sum += v
	}
	if sum != 1000+100*100+99*50 {
		t.Errorf("all hold %v", sum)
	}
	// The name "other" takes one of the 20 places and none of the series.
	if len(got) != maxUsers || got["berth_user_used_gpus[u099]"] != 199 {
		t.Errorf("%d users: %v", len(got), got)
	}
}

func TestBudgets(t *testing.T) {
	now := time.Date(2026, 11, 17, 9, 30, 0, 0, time.UTC)
	hourly := func(seconds int64) engine.Budget {
		return engine.Budget{Resource: "gpu", Seconds: seconds, Period: time.Hour}
	}
	for name, c := range map[string]struct {
		budgets []engine.Budget
		spent   []int64
		at      time.Time
		want    float64
	}{
		"half":             {[]engine.Budget{hourly(200)}, []int64{100}, now, 0.5},
		"the worst counts": {[]engine.Budget{hourly(200), hourly(100)}, []int64{100, 90}, now, 0.9},
		"overspent":        {[]engine.Budget{hourly(100)}, []int64{150}, now, 1.5},
		"of last hour":     {[]engine.Budget{hourly(100)}, []int64{90}, now.Add(-time.Hour), 0},
		"clock went back":  {[]engine.Budget{hourly(100)}, []int64{90}, now.Add(time.Hour), 0.9},
		"nothing counted":  {[]engine.Budget{hourly(100)}, nil, time.Time{}, 0},
		"nothing allowed":  {[]engine.Budget{hourly(0)}, nil, now, 1},
	} {
		f := Figures{GPU: "gpu", At: now}
		q := engine.QueueUse{Queue: engine.Queue{Name: "q", Budgets: c.budgets}, Spent: c.spent, At: c.at}
		got := values(func(set setter) { f.queue(&q, "q", set) })
		if diff := cmp.Diff(c.want, got["berth_queue_budget_spent_ratio[q gpu]"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Whatever accounts there are, GPUs and money are all counted, and reservations do not make series without end.
func TestSeamAddsUp(t *testing.T) {
	var sums []capacity.Sum
	for i := range 300 {
		a := capacity.Account{Reservation: fmt.Sprintf("cr-%03d\xff", i), Cause: "node-cordoned", Owner: "platform", Stage: capacity.Healthy}
		sums = append(sums, capacity.Sum{Account: a, Currency: "USD", GPUs: 8, PerHour: 16e6})
	}
	sums = append(sums, capacity.Sum{Account: capacity.Account{Stage: capacity.Busy}, GPUs: 2, Unpriced: 2}, capacity.Sum{Account: capacity.Account{Cause: "gone"}})
	text, err := Seam(sums)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`berth_seam_gpus{cause="node-cordoned",owner="platform",stage="healthy"} 2400`, `berth_seam_gpus{cause="",owner="",stage="busy"} 2`,
		`berth_seam_cost_per_hour{cause="node-cordoned",currency="USD",owner="platform",stage="healthy"} 4800`,
		`berth_reservation_gpus{reservation="other",stage="healthy"} 1600`, `berth_seam_unpriced_gpus 2`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in:\n%s", line, text)
		}
	}
	if strings.Contains(text, "gone") || strings.Count(text, "berth_reservation_gpus{") > maxReservations+2 {
		t.Errorf("too many series:\n%s", text)
	}
}

// The bar is a scrape within 100 ms and 2 MB at 5,000 nodes and 200 queues. What nodes add is counted by the engine, at
// most every 5 s (BenchmarkBusyScrape of engine); the page has no series of a node.
func BenchmarkScrape(b *testing.B) {
	f := Figures{GPU: "gpu", At: time.Now()}
	for i := range 200 {
		q := engine.QueueUse{Known: true, Queue: engine.Queue{Name: fmt.Sprintf("team-%03d-with-a-name-of-usual-length", i), Budgets: []engine.Budget{{Resource: "gpu", Seconds: 1, Period: time.Hour}}}}
		q.Used = engine.Resources{{Resource: "gpu", Value: int64(i)}}
		f.Queues = append(f.Queues, q)
	}
	for i := range 50_000 {
		f.Tallies = append(f.Tallies, engine.Tally{Key: fmt.Sprint(i), User: fmt.Sprintf("user-%d", i%3000), Held: 1})
	}
	for i := range 20_000 {
		f.Plan.Waiting = append(f.Plan.Waiting, engine.Waiting{Gang: fmt.Sprint(i), Cause: "cluster-full"})
	}
	for i := range 16 {
		for _, level := range []string{"", "zone", "block", "rack", "node"} {
			f.Fleet.Largest = append(f.Fleet.Largest, engine.Largest{Model: fmt.Sprintf("NVIDIA-H%d", i), Level: level, GPUs: 8})
		}
		f.Fleet.Pools = append(f.Fleet.Pools, engine.Usage{Pool: fmt.Sprintf("pool-%d", i)})
	}
	r := New(leads, func() (Figures, error) { return f, nil })
	for i := range f.Queues {
		r.Started(f.Queues[i].Name, 8, time.Minute)
	}
	size := 0
	for b.Loop() {
		text, err := r.Text()
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "bytes/scrape")
}
