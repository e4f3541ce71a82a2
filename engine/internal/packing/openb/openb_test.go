package openb

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/fragment"
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

// Below the published record on the default workload, on seeds that nobody tuned on too.
func TestBerthLeavesLessThanFGD(t *testing.T) {
	dir := traces(t)
	berth := func(w *Workload) Scorer { return NewBerth(w, fragment.Default) }
	got := mean(t, dir, "default", 42, 51, berth)
	other := mean(t, dir, "default", 52, 61, berth)
	t.Logf("Berth leaves %.3f %% unallocated, and %.3f on other seeds", got, other)
	if got > 4.10 || math.Abs(got-other) > 0.15 {
		t.Errorf("Berth leaves %.2f %% of GPUs unallocated and %.2f on other seeds, not 4.10 at most and about the same", got, other)
	}
}

// A workload of each family, three seeds: the whole table is made by the command (docs/packing.md).
func TestBerthIsNoWorseElsewhere(t *testing.T) {
	dir := traces(t)
	for _, workload := range []string{"cpu235", "gpushare40", "gpuspec25", "multigpu50"} {
		fgd := mean(t, dir, workload, 42, 44, func(w *Workload) Scorer { return NewFGD(w) })
		got := mean(t, dir, workload, 42, 44, func(w *Workload) Scorer { return NewBerth(w, fragment.Default) })
		t.Logf("%s: Berth %.2f, FGD %.2f", workload, got, fgd)
		if got > fgd+0.1 {
			t.Errorf("%s: Berth leaves %.2f %% of GPUs unallocated, FGD %.2f", workload, got, fgd)
		}
	}
}

// wasteful drops what it could place, and cheat places what does not fit: a replay must not believe either.
type wasteful struct{ BestFit }

func (wasteful) Score(r *Room, c *Class) (int64, int) {
	score, card := BestFit{}.Score(r, c)
	if c.Shared() {
		card = (card + 1) % r.GPUs
	}
	return score, card
}

func TestReplayRefusesWhatDoesNotFit(t *testing.T) {
	nodes := []Node{{Name: "a", CPU: 8000, Memory: 8000, GPUs: 2, Model: "T4"}}
	var pods []Pod
	for i := range 6 {
		pods = append(pods, Pod{Name: fmt.Sprint(i), CPU: 1000, Memory: 1, GPUs: 1, Milli: 500})
	}
	w := NewWorkload("tiny", nodes, pods)
	if _, err := Run(w, Arrivals{Pods: []int{0, 1, 2, 3, 4, 5}, Rank: []int{0}}, wasteful{}); err == nil {
		t.Error("a share on a card without room went through")
	}
	b := newBoard(w, []int{0})
	b.none[0] = true // the score says that nothing fits
	if node, _ := b.best(BestFit{}, &w.Classes[0]); node >= 0 || b.anyFit(&w.Classes[0]) != 0 {
		t.Error("the check for a dropped pod asks the scores instead of the nodes")
	}
}

func TestTracesAreRead(t *testing.T) {
	const heading = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
	for _, c := range []struct{ what, text, want string }{
		{"no pods", heading, "no pods"},
		{"a share of two cards", heading + "a,1,1,2,500\n", "asks for 2 times 500"},
		{"nine cards", heading + "a,1,1,9,1000\n", "asks for 9 times"},
		{"a negative number", heading + "a,-1,1,1,1000\n", "not a whole number"},
		{"no number", heading + "a,x,1,1,1000\n", "not a whole number"},
		{"no name", heading + ",1,1,1,1000\n", "no value in column name"},
		{"a short line", heading + "a,1\n", "wrong number of fields"},
		{"nothing at all", "", "EOF"},
	} {
		var buf bytes.Buffer
		z := gzip.NewWriter(&buf)
		_, _ = z.Write([]byte(c.text))
		_ = z.Close()
		_, err := Pods(fstest.MapFS{"openb/openb_pod_list_x.csv.gz": {Data: buf.Bytes()}}, "x")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if _, err := Pods(fstest.MapFS{"openb/openb_pod_list_x.csv.gz": {Data: []byte("not compressed")}}, "x"); err == nil {
		t.Error("a file that is not compressed was read")
	}
}

// Two nodes each run a share of 47 on their only card. A pod that wants a whole card fits nowhere until one of them moves.
func TestMovesMakeRoom(t *testing.T) {
	nodes := []Node{{Name: "a", CPU: 8000, Memory: 8, GPUs: 1, Model: "T4"}, {Name: "b", CPU: 8000, Memory: 8, GPUs: 1, Model: "T4"}}
	pods := []Pod{{Name: "0", CPU: 5000, Memory: 1, GPUs: 1, Milli: 470}, {Name: "1", CPU: 3000, Memory: 1, GPUs: 1, Milli: 470}, {Name: "2", CPU: 5000, Memory: 1, GPUs: 1, Milli: 1000}}
	w := NewWorkload("tiny", nodes, pods)
	b := newBoard(w, []int{0, 1})
	b.lives = make([][]life, len(nodes))
	for i := range 2 {
		if err := b.place(&w.Classes[w.Class[i]], i, 0); err != nil {
			t.Fatal(err)
		}
	}
	want := &w.Classes[w.Class[2]]
	if n, err := b.makeRoom(BestFit{}, want, 0); n != 0 || err != nil {
		t.Fatalf("without a budget %d pods moved, %v", n, err)
	}
	if n, err := b.makeRoom(BestFit{}, want, 1); n != 1 || err != nil {
		t.Fatalf("%d pods moved, want 1, %v", n, err)
	}
	var left []Room
	for i := range b.rooms {
		r := w.Empty[i]
		for _, l := range b.lives[i] {
			r.CPU -= l.class.CPU
			r.Memory -= l.class.Memory
			for c := range r.GPUs {
				if l.cards>>c&1 == 1 {
					r.Cards[c] -= l.class.Milli
				}
			}
		}
		left = append(left, r)
	}
	if diff := cmp.Diff(left, b.rooms); diff != "" {
		t.Errorf("what runs does not add up to what is taken (-runs +taken):\n%s", diff)
	}
	if n := len(b.lives[0]) + len(b.lives[1]); n != 3 {
		t.Errorf("%d pods run, want 3", n)
	}
}

// A chain that ends nowhere leaves everything as it was.
func TestMovesThatFailChangeNothing(t *testing.T) {
	nodes := []Node{{Name: "a", CPU: 8000, Memory: 8, GPUs: 1, Model: "T4"}, {Name: "b", CPU: 8000, Memory: 8, GPUs: 1, Model: "T4"}}
	pods := []Pod{{Name: "0", CPU: 1000, Memory: 1, GPUs: 1, Milli: 650}, {Name: "1", CPU: 1000, Memory: 1, GPUs: 1, Milli: 470}, {Name: "2", CPU: 1000, Memory: 1, GPUs: 1, Milli: 1000}}
	w := NewWorkload("tiny", nodes, pods)
	b := newBoard(w, []int{0, 1})
	b.lives = make([][]life, len(nodes))
	for i := range 2 {
		if err := b.place(&w.Classes[w.Class[i]], i, 0); err != nil {
			t.Fatal(err)
		}
	}
	before := slices.Clone(b.rooms)
	if n, err := b.makeRoom(BestFit{}, &w.Classes[w.Class[2]], 3); n != 0 || err != nil {
		t.Fatalf("%d pods moved, %v", n, err)
	}
	if diff := cmp.Diff(before, b.rooms); diff != "" {
		t.Error(diff)
	}
}
