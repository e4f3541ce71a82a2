package openb

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"testing"
)

// traces is the folder that BERTH_TRACES names. Without it the test is skipped.
func traces(t *testing.T) fs.FS {
	t.Helper()
	dir := os.Getenv("BERTH_TRACES")
	if dir == "" {
		t.Skip("BERTH_TRACES names no folder with the openb trace: the replay is not tested (docs/packing.md)")
	}
	return os.DirFS(dir)
}

func TestArrivalsHaveThePublishedChecksums(t *testing.T) {
	dir := traces(t)
	nodes, err := Nodes(dir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := Workloads(dir)
	if err != nil {
		t.Fatal(err)
	}
	lists := make(map[string][]Pod)
	for _, w := range have {
		if lists[w], err = Pods(dir, w); err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	err = table(dir, "openb/arrival_sequence_checksums.csv", func(r row) error {
		pods := lists[r.text("workload")]
		if pods == nil {
			return nil
		}
		seed := r.number("seed")
		a := Inflate(pods, nodes, seed)
		sum := sha256.New()
		for _, i := range a.Pods {
			fmt.Fprintln(sum, pods[i].Name)
		}
		got := fmt.Sprintf("%x", sum.Sum(nil))[:16]
		if want := r.text("sha256_16_of_pod_names_one_per_line"); got != want || strconv.Itoa(len(a.Pods)) != r.text("pods") {
			t.Errorf("%s, seed %d: %d pods with checksum %s, want %s with %s", r.text("workload"), seed, len(a.Pods), got, r.text("pods"), want)
		}
		checked++
		return r.err
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 {
		t.Errorf("only %d arrival lists could be checked", checked)
	}
}

// mean is what the seeds leave unallocated at 100 % arrivals, on average, in percent.
func mean(t testing.TB, dir fs.FS, workload string, first, last int64, policy func(*Workload) Scorer) float64 {
	t.Helper()
	nodes, err := Nodes(dir)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := Pods(dir, workload)
	if err != nil {
		t.Fatal(err)
	}
	w, sum := NewWorkload(workload, nodes, pods), 0.0
	for seed := first; seed <= last; seed++ {
		res, err := Run(w, Inflate(pods, nodes, seed), policy(w))
		if err != nil {
			t.Fatalf("%s, seed %d: %v", workload, seed, err)
		}
		sum += res.Unallocated[100]
	}
	return sum / float64(last-first+1)
}

// The references must be what was published, or a comparison with them says nothing.
func TestReferencesMatchThePublishedMeans(t *testing.T) {
	dir := traces(t)
	for _, c := range []struct {
		name   string
		want   float64
		policy func(*Workload) Scorer
	}{
		{"BestFit", 7.14, func(*Workload) Scorer { return BestFit{} }},
		{"FGD", 4.77, func(w *Workload) Scorer { return NewFGD(w) }},
	} {
		got := mean(t, dir, "default", 42, 51, c.policy)
		t.Logf("%s leaves %.3f %% unallocated, published %.2f", c.name, got, c.want)
		if math.Abs(got-c.want) > 0.1 {
			t.Errorf("%s leaves %.2f %% of GPUs unallocated, more than 0.1 from the published %.2f", c.name, got, c.want)
		}
	}
}
