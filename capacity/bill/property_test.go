package bill_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine"
)

// machine and holder are the world of a random history, as it really was.
type machine struct {
	name, pool string
	gpus       int64
}

type holder struct {
	key, queue, node string
	gpus             int64
}

type world struct {
	machines map[string]machine
	holders  map[string]holder
	version  uint64
}

// recount is the bill by brute force: every interval anew, from the world alone.
type recount struct {
	tariff   bill.Tariff
	from, to time.Time
	used     map[string]int64 // GPU-milliseconds by queue
	waiting  map[string]int64
	unused   int64
	money    map[string]map[bill.Price]int64 // GPU-milliseconds by queue and price; queue "-": nobody's
}

// lived adds an interval, cut where reservations begin or end.
func (r *recount) lived(w *world, from, to time.Time) {
	cuts := []time.Time{from, to}
	for _, x := range r.tariff.Reservations {
		for _, at := range []time.Time{x.Start, x.End} {
			if at.After(from) && at.Before(to) {
				cuts = append(cuts, at)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	for i := range len(cuts) - 1 {
		r.part(w, cuts[i], cuts[i+1])
	}
}

func (r *recount) part(w *world, from, to time.Time) {
	begin, end := max(from.UnixMilli(), r.from.UnixMilli()), min(to.UnixMilli(), r.to.UnixMilli())
	if end <= begin {
		return
	}
	ms := end - begin
	left := make(map[string]int)
	for _, x := range r.tariff.Reservations {
		if !from.Before(x.Start) && from.Before(x.End) {
			left[x.Name] = x.Instances
		}
	}
	charge := func(who string, p bill.Price, n int64) {
		if r.money[who] == nil {
			r.money[who] = make(map[bill.Price]int64)
		}
		r.money[who][p] += n
	}
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		m := w.machines[name]
		price := r.tariff.Pools[m.pool].Price
		for _, x := range r.tariff.Pools[m.pool].Reservations {
			if left[x] > 0 {
				left[x]--
				price = r.tariff.Reservations[slices.IndexFunc(r.tariff.Reservations, func(y bill.Reservation) bool { return y.Name == x })].Price
				break
			}
		}
		free := m.gpus * ms
		for _, key := range slices.Sorted(maps.Keys(w.holders)) {
			if h := w.holders[key]; h.node == name {
				r.used[h.queue] += h.gpus * ms
				charge(h.queue, price, h.gpus*ms)
				free -= h.gpus * ms
			}
		}
		r.unused += free
		charge("-", price, free)
	}
	for _, h := range w.holders {
		if h.node == "" {
			r.waiting[h.queue] += h.gpus * ms
		}
	}
	for _, x := range r.tariff.Reservations {
		r.unused += int64(left[x.Name]*x.GPUs) * ms
		charge("-", x.Price, int64(left[x.Name]*x.GPUs)*ms)
	}
}

// TestBillAddsUp lives random histories: clocks that jump both ways, restarts, times that nobody saw, and objects that are told
// late, twice, in another order or again in an older version. The lines are those of a recount, and add up to what is paid.
func TestBillAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tariff := drawTariff(t)
		from, to := noon.Add(time.Duration(rapid.Int64Range(-100, 4e6).Draw(t, "from"))*time.Millisecond), noon.Add(time.Duration(rapid.Int64Range(4e6, 2e7).Draw(t, "to"))*time.Millisecond)
		r := &recount{tariff: tariff, from: from, to: to, used: map[string]int64{}, waiting: map[string]int64{}, money: map[string]map[bill.Price]int64{}}
		w := &world{machines: map[string]machine{}, holders: map[string]holder{}, version: 1}
		b := bill.New(bill.Options{From: from, To: to, Tariff: tariff})
		plain, parts := bill.New(bill.Options{From: from, To: to}), bill.Follow(from, to, rapid.IntRange(1, 50).Draw(t, "parts"))
		now := noon
		var older []engine.Change
		for _, to := range []interface{ Add(bill.Step) }{b, plain, parts} {
			to.Add(bill.Step{Now: now, Fresh: true})
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at := now.Add(time.Duration(rapid.Int64Range(0, 1_200_000).Draw(t, "on")) * time.Millisecond)
			unseen := rapid.IntRange(0, 9).Draw(t, "unseen") == 0
			if rapid.IntRange(0, 9).Draw(t, "clock") == 0 {
				at = now.Add(-time.Duration(rapid.Int64Range(1, 3_000_000).Draw(t, "back")) * time.Millisecond)
			}
			if at.After(now) && !unseen {
				r.lived(w, now, at)
			}
			now = at
			changes := w.live(t)
			step := bill.Step{Now: at, Unseen: unseen, Fresh: unseen || rapid.IntRange(0, 9).Draw(t, "fresh") == 0}
			if step.Fresh {
				changes, older = w.all(), nil
			}
			step.Changes = slices.Concat(changes, changes)
			if len(older) > 0 {
				step.Changes = append(step.Changes, rapid.SampledFrom(older).Draw(t, "late"))
			}
			step.Changes = rapid.Permutation(step.Changes).Draw(t, "order")
			older = append(older, changes...)
			for _, to := range []interface{ Add(bill.Step) }{b, plain, parts} {
				to.Add(step)
			}
		}
		end := now.Add(time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "end")) * time.Millisecond)
		r.lived(w, now, end)
		r.compare(t, b.Close(end, bill.ByQueue))
		addsUp(t, parts.Close(end), plain.Close(end, bill.ByQueue))
	})
}

// addsUp holds the parts of a span to the bill of the whole, which has no prices: reservations have machines that are no nodes.
func addsUp(t *rapid.T, p bill.Past, whole *bill.Report) {
	sum := bill.Point{}
	for i, x := range p.Points {
		if i > 0 && !x.At.After(p.Points[i-1].At) {
			t.Errorf("part %d ends at %v, after one that ends at %v", i, x.At, p.Points[i-1].At)
		}
		sum.Seen, sum.Used, sum.Unused, sum.Waiting = sum.Seen+x.Seen, sum.Used+x.Used, sum.Unused+x.Unused, sum.Waiting+x.Waiting
	}
	want := bill.Point{Seen: whole.Seen, Unused: whole.Unused.Used}
	byStage := int64(0)
	for _, l := range whole.UnusedBy {
		byStage += l.Used
	}
	if byStage != whole.Unused.Used {
		t.Errorf("by stage %d are unused, of %d", byStage, whole.Unused.Used)
	}
	for _, l := range whole.Lines {
		want.Used, want.Waiting = want.Used+l.Used, want.Waiting+l.Waiting
	}
	if diff := gocmp.Diff(want, sum); diff != "" {
		t.Errorf("-bill +parts\n%s", diff)
	}
}

func drawTariff(t *rapid.T) bill.Tariff {
	price := func(name string) bill.Price {
		if rapid.IntRange(0, 3).Draw(t, name+" unpriced") == 0 {
			return bill.Price{}
		}
		return bill.Price{Known: true, Micro: capacity.Micro(rapid.Int64Range(0, 99_999_999).Draw(t, name)), Currency: rapid.SampledFrom([]string{"USD", "EUR"}).Draw(t, "currency")}
	}
	out := bill.Tariff{Pools: map[string]bill.Pool{}}
	for i := range 2 {
		start := noon.Add(time.Duration(rapid.Int64Range(-1e6, 8e6).Draw(t, "start")) * time.Millisecond)
		out.Reservations = append(out.Reservations, bill.Reservation{Name: fmt.Sprintf("r%d", i), GPUs: 4, Instances: rapid.IntRange(0, 3).Draw(t, "instances"), Start: start, End: start.Add(time.Duration(rapid.Int64Range(1, 8e6).Draw(t, "lasts")) * time.Millisecond), Price: price("reserved")})
	}
	for _, name := range []string{"p", "q"} {
		out.Pools[name] = bill.Pool{GPUs: 4, Reservations: rapid.SampledFrom([][]string{nil, {"r0"}, {"r1", "r0"}}).Draw(t, "draws"), Price: price("pool")}
	}
	return out
}

// live changes the world and says what changed.
func (w *world) live(t *rapid.T) (out []engine.Change) {
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		w.version++
		node := fmt.Sprintf("n%d", rapid.IntRange(0, 2).Draw(t, "node"))
		key := fmt.Sprintf("x/%d", rapid.IntRange(0, 4).Draw(t, "pod"))
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			if _, is := w.machines[node]; !is {
				w.machines[node] = machine{node, rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), 4}
				out = append(out, w.node(node))
			}
		case 1:
			if w.free(node) == 4 {
				delete(w.machines, node)
				out = append(out, gone(engine.KindNode, node, w.version))
			}
		case 2:
			delete(w.holders, key)
			out = append(out, gone(engine.KindPod, key, w.version))
		default:
			h := holder{key: key, queue: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "queue"), gpus: rapid.Int64Range(1, 4).Draw(t, "gpus")}
			delete(w.holders, key)
			if w.free(node) >= h.gpus && rapid.Bool().Draw(t, "bound") {
				h.node = node
			}
			w.holders[key] = h
			out = append(out, w.pod(key))
		}
	}
	return out
}

func (w *world) free(node string) int64 {
	m, is := w.machines[node]
	if !is {
		return -1
	}
	for _, h := range w.holders {
		if h.node == node {
			m.gpus -= h.gpus
		}
	}
	return m.gpus
}

func (w *world) node(name string) engine.Change {
	return aNode(name, w.machines[name].pool, w.machines[name].gpus, w.version)
}

func (w *world) pod(key string) engine.Change {
	h := w.holders[key]
	return aPod(key, h.queue, h.node, h.gpus, w.version)
}

func (w *world) all() (out []engine.Change) {
	for name := range w.machines {
		w.version++
		out = append(out, w.node(name))
	}
	for key := range w.holders {
		w.version++
		out = append(out, w.pod(key))
	}
	return out
}

func (r *recount) compare(t *rapid.T, got *bill.Report) {
	used, waiting := map[string]int64{}, map[string]int64{}
	sum, money := got.Unused.Used, map[string]capacity.Micro{}
	for _, a := range got.Unused.Cost {
		money[a.Currency] += a.Micro
	}
	shares := map[string]capacity.Micro{}
	for _, l := range got.Lines {
		used[l.Name], waiting[l.Name] = l.Used/1000, l.Waiting/1000
		sum += l.Used
		for _, a := range l.Cost {
			money[a.Currency] += a.Micro
		}
		for _, a := range l.Share {
			shares[a.Currency] += a.Micro
		}
		r.near(t, l.Name, l)
	}
	r.near(t, "-", got.Unused)
	if diff := gocmp.Diff([]map[string]int64{nonzero(r.used), nonzero(r.waiting)}, []map[string]int64{nonzero(used), nonzero(waiting)}); diff != "" {
		t.Fatalf("GPU-milliseconds used and waiting (-recounted +billed):\n%s", diff)
	}
	if got.Unused.Used != r.unused*1000 || got.Paid.Used != sum {
		t.Fatalf("unused %d of %d, want %d of %d", got.Unused.Used, got.Paid.Used, r.unused*1000, sum)
	}
	paid := map[string]capacity.Micro{}
	for _, a := range got.Paid.Cost {
		paid[a.Currency] = a.Micro
	}
	if diff := gocmp.Diff(paid, money); diff != "" {
		t.Fatalf("lines do not add up to what is paid:\n%s", diff)
	}
	for _, a := range got.Unused.Cost {
		if len(r.used) > 0 && got.Paid.Used > got.Unused.Used && shares[a.Currency] != a.Micro {
			t.Fatalf("shares of %v come to %d", a, shares[a.Currency])
		}
	}
}

// near holds the money of a line to the recount's: each price may be off by less than a millionth for rounding.
func (r *recount) near(t *rapid.T, who string, l bill.Line) {
	unpriced, want, prices := int64(0), map[string]float64{}, 0
	for p, n := range r.money[who] {
		if !p.Known {
			unpriced += n
			continue
		}
		want[p.Currency] += float64(n) / 3_600_000 / 4 * float64(p.Micro)
		prices++
	}
	if l.Unpriced != unpriced*1000 {
		t.Fatalf("%s: %d without a price, want %d", who, l.Unpriced, unpriced*1000)
	}
	for _, a := range l.Cost {
		if off := float64(a.Micro) - want[a.Currency]; off > float64(2*prices) || off < -float64(2*prices) {
			t.Fatalf("%s: %v, want %f", who, a, want[a.Currency])
		}
		delete(want, a.Currency)
	}
	for currency, m := range want {
		if m >= 1 {
			t.Fatalf("%s: no %s, want %f", who, currency, m)
		}
	}
}

func nonzero(m map[string]int64) map[string]int64 {
	maps.DeleteFunc(m, func(_ string, n int64) bool { return n == 0 })
	return m
}
