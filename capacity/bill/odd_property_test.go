package bill_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/engine"
)

// object is a Node object as it really is: several may be of one machine.
type object struct {
	machine, pool, kind string
	shows               int64 // GPUs, now
	most                int64 // GPUs that its machine ever showed
	down                bool
	version             uint64
}

// tenant is a pod: what it has of GPUs is in thousandths, in one of the forms in which pods ask.
type tenant struct {
	queue, node string
	form        int
	amount      int64
}

type oddWorld struct {
	objects map[string]*object
	pods    map[string]tenant
	version uint64
	touched map[string]bool // names of nodes that this step is about: a log has the last of what became of each
	resized map[string]bool // of those, which became another machine
}

// oddBill is the bill of an oddWorld, each interval anew, in thousandths of a GPU times milliseconds, by queue ("-": nobody held it) and
// by what a GPU of the machine costs.
type oddBill struct {
	reserved bill.Reservation
	pools    map[string]bill.Pool
	time     map[string]map[costOf]int64
	waiting  map[string]int64
}

type costOf struct {
	price bill.Price
	gpus  int64
}

func (o *oddBill) add(who string, at costOf, n int64) {
	if o.time[who] == nil {
		o.time[who] = make(map[costOf]int64)
	}
	o.time[who][at] += n
}

func (o *oddBill) lived(w *oddWorld, from, to time.Time) {
	for _, edge := range []time.Time{o.reserved.Start, o.reserved.End} {
		if !edge.IsZero() && edge.After(from) && edge.Before(to) {
			o.lived(w, from, edge)
			o.lived(w, edge, to)
			return
		}
	}
	ms := to.UnixMilli() - from.UnixMilli()
	left := int64(0)
	if !from.Before(o.reserved.Start) && (o.reserved.End.IsZero() || from.Before(o.reserved.End)) {
		left = int64(o.reserved.Instances)
	}
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		n := w.objects[name]
		if n.most == 0 || w.stands(n.machine) != name {
			continue
		}
		at := costOf{o.pools[n.pool].Price, n.most}
		if n.pool == "q" && n.kind == "x.small" && left > 0 {
			left--
			at = costOf{o.reserved.Price, int64(o.reserved.GPUs)}
		}
		held := int64(0)
		for _, p := range w.pods {
			if p.node == name {
				held += p.amount
			}
		}
		free := at.gpus * 1000
		for _, p := range w.pods {
			if p.node == name {
				part := p.amount
				if held > at.gpus*1000 {
					part = part * at.gpus * 1000 / held
				}
				o.add(p.queue, at, part*ms)
				free -= part
			}
		}
		o.add("-", at, free*ms)
	}
	o.add("-", costOf{o.reserved.Price, int64(o.reserved.GPUs)}, left*int64(o.reserved.GPUs)*1000*ms)
	for _, p := range w.pods {
		if p.node == "" {
			o.waiting[p.queue] += p.amount * ms
		}
	}
}

// stands is the Node object that stands for a machine: one that is up before one that is down, else the one that changed last.
func (w *oddWorld) stands(machine string) (best string) {
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		n := w.objects[name]
		if n.machine != machine || n.most == 0 {
			continue
		}
		if best == "" || w.objects[best].down && !n.down || w.objects[best].down == n.down && w.objects[best].version < n.version {
			best = name
		}
	}
	return best
}

// settles remembers what machines showed, once a step is over.
func (w *oddWorld) settles() {
	clear(w.touched)
	clear(w.resized)
	for _, n := range w.objects {
		if s := w.objects[w.stands(n.machine)]; s != nil && s.kind == n.kind {
			s.most = max(s.most, n.most)
		}
	}
}

func (w *oddWorld) node(name string) engine.Change {
	n := w.objects[name]
	c := aNode(name, n.pool, n.shows, n.version)
	c.Node.Machine = n.machine
	c.Node.Labels = map[string]string{v1alpha1.LabelPool: n.pool, corev1.LabelInstanceTypeStable: n.kind}
	if n.down {
		c.Node.Taints = []engine.Taint{{Key: "node.kubernetes.io/unreachable", Effect: engine.NoExecute}}
	}
	return c
}

func (w *oddWorld) pod(key string) engine.Change {
	p := w.pods[key]
	c := aPod(key, p.queue, p.node, 0, w.version)
	v := c.Pod
	v.UID = fmt.Sprint(key, p.form, p.amount)
	v.Requests = nil
	switch p.form {
	case 0:
		v.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: p.amount / 1000}}
	case 1:
		v.Part = &engine.Part{Cards: 1, Share: p.amount}
	case 2: // an instance of MIG that it has by a claim, beside a network card
		v.Claimed, v.Devices = p.amount, []string{"gpu.nvidia.com/n/gpu-0-mig-1g.10gb-0", "net.example.com/n/nic-0"}
		v.Claims = &engine.Claims{Requests: []engine.DeviceRequest{{Name: "nic", Options: []engine.DeviceOption{{Selection: "nic", Count: 1}}}}}
	case 3:
		v.Requests = engine.Resources{{Resource: "nvidia.com/mig-1g.10gb", Value: p.amount / 142}}
	}
	return c
}

func (w *oddWorld) live(t *rapid.T) (out []engine.Change) {
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		w.version++
		name := fmt.Sprintf("n%d", rapid.IntRange(0, 3).Draw(t, "node"))
		key := fmt.Sprintf("x/%d", rapid.IntRange(0, 5).Draw(t, "pod"))
		n := w.objects[name]
		what := rapid.SampledFrom([]string{"node", "shows", "resize", "down", "no node", "no pod", "pod", "pod", "pod"}).Draw(t, "what")
		switch {
		case what == "node" && n == nil && !w.touched[name]:
			n = &object{machine: fmt.Sprintf("m%d", rapid.IntRange(0, 2).Draw(t, "machine")), pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"), kind: "x.small", version: w.version}
			for _, other := range w.objects {
				if other.machine == n.machine {
					n.pool, n.kind = other.pool, other.kind
				}
			}
			n.shows = rapid.Int64Range(0, 4).Draw(t, "shows")
			w.objects[name], w.touched[name] = n, true
		case what == "shows" && n != nil:
			n.shows, n.version = rapid.Int64Range(0, 4).Draw(t, "shows"), w.version
			w.touched[name] = true
		case what == "resize" && n != nil && !w.resized[name] && !slices.ContainsFunc(slices.Collect(maps.Keys(w.objects)), func(other string) bool { return other != name && w.objects[other].machine == n.machine }):
			n.kind, n.version = map[string]string{"x.small": "x.large", "x.large": "x.small"}[n.kind], w.version
			n.shows = rapid.Int64Range(1, 8).Draw(t, "shows")
			n.most, w.touched[name], w.resized[name] = 0, true, true
		case what == "down" && n != nil:
			n.down, n.version = !n.down, w.version
			w.touched[name] = true
		case what == "no node" && n != nil:
			delete(w.objects, name)
			w.touched[name] = true
		case what == "no pod":
			delete(w.pods, key)
			out = append(out, gone(engine.KindPod, key, w.version))
		case what == "pod":
			p := tenant{queue: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "queue"), form: rapid.IntRange(0, 3).Draw(t, "form")}
			p.amount = rapid.Int64Range(1, 6).Draw(t, "amount") * []int64{1000, 150, 142, 142}[p.form]
			if rapid.Bool().Draw(t, "bound") {
				p.node = name // which may not be known yet, or have less than is asked
			}
			w.pods[key] = p
			out = append(out, w.pod(key))
		}
	}
	for name := range w.touched {
		if n := w.objects[name]; n != nil {
			n.most = max(n.most, n.shows)
			out = append(out, w.node(name))
		} else {
			out = append(out, gone(engine.KindNode, name, w.version))
		}
	}
	return out
}

func (w *oddWorld) all() (out []engine.Change) {
	for name := range w.objects {
		out = append(out, w.node(name))
	}
	for key := range w.pods {
		w.version++
		out = append(out, w.pod(key))
	}
	return out
}

// TestOddHistoriesAddUp lives histories of machines that are several Node objects, that show fewer GPUs for a while or are another machine
// of the same name, of pods with parts of GPUs in each form, more than there are or on nodes that come later, of logs that begin anew, clocks
// that go back, and objects that come late, twice or in another order: the bill is that of a recount, and its parts add up to what is paid.
func TestOddHistoriesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := func(name string) bill.Price {
			return bill.Price{Known: true, Micro: capacity.Micro(rapid.Int64Range(0, 99_999_999).Draw(t, name)), Currency: "USD"}
		}
		want := &oddBill{
			reserved: bill.Reservation{Name: "r", InstanceType: "x.small", GPUs: 4, Instances: rapid.IntRange(0, 2).Draw(t, "instances"), Start: noon.Add(time.Duration(rapid.Int64Range(-1e6, 8e6).Draw(t, "start")) * time.Millisecond), Price: price("reserved")},
			pools:    map[string]bill.Pool{"p": {Price: price("p")}, "q": {Reservations: []string{"r"}, Price: bill.Price{}}},
			time:     map[string]map[costOf]int64{}, waiting: map[string]int64{},
		}
		if rapid.Bool().Draw(t, "ends") {
			want.reserved.End = want.reserved.Start.Add(time.Duration(rapid.Int64Range(1, 8e6).Draw(t, "lasts")) * time.Millisecond)
		}
		w := &oddWorld{objects: map[string]*object{}, pods: map[string]tenant{}, version: 1, touched: map[string]bool{}, resized: map[string]bool{}}
		b := bill.New(bill.Options{Tariff: bill.Tariff{Reservations: []bill.Reservation{want.reserved}, Pools: want.pools}})
		now := noon
		b.Add(bill.Step{Now: now, Fresh: true})
		var older []engine.Change
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			at := now.Add(time.Duration(rapid.Int64Range(0, 1_200_000).Draw(t, "on")) * time.Millisecond)
			step := bill.Step{Unseen: rapid.IntRange(0, 9).Draw(t, "unseen") == 0}
			if rapid.IntRange(0, 9).Draw(t, "clock") == 0 {
				at = now.Add(-time.Duration(rapid.Int64Range(1, 3_000_000).Draw(t, "back")) * time.Millisecond)
			}
			if at.After(now) && !step.Unseen {
				want.lived(w, now, at)
			}
			now = at
			changes := w.live(t)
			step.Now, step.Fresh = at, step.Unseen || rapid.IntRange(0, 4).Draw(t, "fresh") == 0
			if step.Fresh {
				changes, older = w.all(), nil
			}
			step.Changes = slices.Concat(changes, changes)
			if len(older) > 0 {
				step.Changes = append(step.Changes, rapid.SampledFrom(older).Draw(t, "late"))
			}
			step.Changes = rapid.Permutation(step.Changes).Draw(t, "order")
			older = append(older, changes...)
			b.Add(step)
			w.settles()
		}
		end := now.Add(time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "end")) * time.Millisecond)
		want.lived(w, now, end)
		want.compare(t, b.Close(end, bill.ByQueue))
	})
}

func (o *oddBill) compare(t *rapid.T, got *bill.Report) {
	paid, money := int64(0), capacity.Micro(0)
	lines := append(slices.Clone(got.Lines), got.Unused)
	lines[len(lines)-1].Name = "-"
	for _, l := range lines {
		used, unpriced, cost, rates := int64(0), int64(0), float64(0), 0
		for at, n := range o.time[l.Name] {
			used += n
			if !at.price.Known {
				unpriced += n
			} else {
				cost += float64(n) / float64(at.gpus) / bill.Hour * float64(at.price.Micro)
				rates++
			}
		}
		if l.Used != used || l.Unpriced != unpriced {
			t.Fatalf("%q has %d, %d without a price, want %d and %d", l.Name, l.Used, l.Unpriced, used, unpriced)
		}
		for _, a := range l.Cost {
			if off := float64(a.Micro) - cost; off > float64(2*rates) || off < -float64(2*rates) {
				t.Fatalf("%q costs %d, want %f", l.Name, a.Micro, cost)
			}
			money += a.Micro
		}
		if l.Name != "-" && l.Waiting != o.waiting[l.Name] {
			t.Fatalf("%q waited %d, want %d", l.Name, l.Waiting, o.waiting[l.Name])
		}
		paid += l.Used
		delete(o.time, l.Name)
	}
	for who, by := range o.time {
		for _, n := range by {
			if n != 0 {
				t.Fatalf("no line of %q, which has %d", who, n)
			}
		}
	}
	if got.Paid.Used != paid || len(got.Paid.Cost) > 0 && got.Paid.Cost[0].Micro != money {
		t.Fatalf("paid %d and %v, lines add up to %d and %d", got.Paid.Used, got.Paid.Cost, paid, money)
	}
}
