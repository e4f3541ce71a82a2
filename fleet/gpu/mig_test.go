package gpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// profiled lists the models that MIG can cut, which is every model that says so.
func profiled(t *testing.T) []Model {
	var out []Model
	for _, m := range Models() {
		if m.MIG != (len(m.Profiles()) > 0) {
			t.Errorf("%s: MIG is %v and there are %d profiles", m.Name, m.MIG, len(m.Profiles()))
		}
		if m.MIG {
			out = append(out, m)
		}
	}
	return out
}

func (i Instance) String() string { return fmt.Sprintf("%s@%d", i.Profile.Name, i.Start) }

// What a real H200 did when it was left to choose; see the comment on Create.
func TestDriversChoice(t *testing.T) {
	h200, _ := Lookup("H200")
	for _, c := range []struct {
		ask  []string
		want []string // place and number of the GPU instance
	}{
		{[]string{"19", "19", "19", "19", "19", "19", "19", "19"}, []string{"6 13", "4 11", "5 12", "0 7", "1 8", "2 9", "3 10", "Insufficient Resources"}},
		{[]string{"9", "19", "1g.18gb", "14", "0"}, []string{"4 2", "0 7", "1 8", "2 4", "Insufficient Resources"}},
		{[]string{"20", "15", "20"}, []string{"6 13", "4 5", "Insufficient Resources"}},
		{[]string{"19", "14", "5"}, []string{"6 13", "4 5", "0 1"}},
		{[]string{"9", "9", "19"}, []string{"4 2", "0 1", "Insufficient Resources"}},
		{[]string{"0", "19"}, []string{"0 0", "Insufficient Resources"}},
	} {
		var have []Instance
		var got []string
		for _, name := range c.ask {
			p, _ := h200.Profile(name)
			next, made, err := h200.Create(have, p, -1, true)
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			have = next
			got = append(got, fmt.Sprint(made.Start, h200.instanceID(made)))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.ask, diff)
		}
	}
}

func TestCreateWhere(t *testing.T) {
	a30, _ := Lookup("A30")
	two, _ := a30.Profile("2g.12gb")
	h100, _ := Lookup("h100")
	foreign, _ := h100.Profile("1g.10gb")
	for _, c := range []struct {
		p     Profile
		start int
		want  error
	}{{two, 2, nil}, {two, 1, ErrInvalid}, {two, 4, ErrInvalid}, {foreign, -1, ErrInvalid}, {Profile{}, -1, ErrInvalid}} {
		if _, _, err := a30.Create(nil, c.p, c.start, true); !errors.Is(err, c.want) {
			t.Errorf("%s at %d: %v, want %v", c.p.Name, c.start, err, c.want)
		}
	}
}

// The figures that diagnoses and charts rely on: how many of each fit on an empty GPU.
func TestRoom(t *testing.T) {
	for _, m := range profiled(t) {
		for _, p := range m.Profiles() {
			if got := m.Room(nil, p); got != p.Max {
				t.Errorf("%s: %d of %s fit on an empty GPU, and %d are documented", m.Name, got, p.Name, p.Max)
			}
		}
	}
	h200, _ := Lookup("H200")
	one, _ := h200.Profile("1g.18gb")
	three, _ := h200.Profile("3g.71gb")
	half, _, _ := h200.Create(nil, three, -1, true)
	if got := h200.Room(half, one); got != 4 {
		t.Errorf("beside one 3g there is room for %d 1g, want 4: its half of the memory has four slots", got)
	}
}

// Whatever is created and destroyed: every instance is where its profile may be, no two overlap, and the compute slices and
// the counts hold.
func TestPartitionsHold(t *testing.T) {
	models := profiled(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models).Draw(t, "model")
		var have []Instance
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(have) > 0 && rapid.IntRange(0, 2).Draw(t, "destroy") == 0 {
				have = slices.Delete(slices.Clone(have), 0, rapid.IntRange(1, len(have)).Draw(t, "which"))
				continue
			}
			p := rapid.SampledFrom(m.Profiles()).Draw(t, "profile")
			start := rapid.IntRange(-1, m.Slots()).Draw(t, "start")
			before := slices.Clone(have)
			room := m.Room(have, p)
			next, made, err := m.Create(have, p, start, true)
			if diff := cmp.Diff(before, have); diff != "" {
				t.Fatal("Create changed its argument", diff)
			}
			if start < 0 && (err == nil) != (room > 0) {
				t.Fatalf("%s beside %v: room for %d, and %v", p.Name, have, room, err)
			}
			if err != nil {
				continue
			}
			if !slices.ContainsFunc(next, made.equal) || len(next) != len(have)+1 {
				t.Fatal("the new instance is not in the list", next)
			}
			have = next
			checkPartition(t, m, have)
		}
	})
}

func (i Instance) equal(o Instance) bool { return i.Profile.ID == o.Profile.ID && i.Start == o.Start }

func checkPartition(t *rapid.T, m Model, have []Instance) {
	slots, sum, ids := map[int]string{}, 0, map[int]bool{}
	counts := map[string]int{}
	for _, i := range have {
		if !slices.Contains(i.Profile.Starts, i.Start) {
			t.Fatalf("%s: %v is not at a place of its profile", m.Name, i)
		}
		for s := i.Start; s < i.Start+i.Profile.Size; s++ {
			if other, taken := slots[s]; taken || s >= m.Slots() {
				t.Fatalf("%s: slot %d is of %s and of %v", m.Name, s, other, i)
			}
			slots[s] = i.String()
		}
		if id := m.instanceID(i); ids[id] {
			t.Fatalf("%s: two instances are number %d", m.Name, id)
		} else {
			ids[id] = true
		}
		sum += i.Profile.Slices
		counts[i.Profile.Name]++
		if counts[i.Profile.Name] > i.Profile.Max {
			t.Fatalf("%s: %d of %s", m.Name, counts[i.Profile.Name], i.Profile.Name)
		}
	}
	if sum > m.Slices() {
		t.Fatalf("%s: %d compute slices of %d", m.Name, sum, m.Slices())
	}
}

// Layout finds a placement whenever a search of all of them does.
func TestLayoutIsComplete(t *testing.T) {
	models := profiled(t)
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(models).Draw(t, "model")
		counts := map[string]int{}
		for range rapid.IntRange(0, 5).Draw(t, "instances") {
			counts[rapid.SampledFrom(m.Profiles()).Draw(t, "profile").Name]++
		}
		got, err := m.Layout(counts)
		var wanted []Profile
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			p, _ := m.Profile(name)
			wanted = append(wanted, slices.Repeat([]Profile{p}, counts[name])...)
		}
		if possible := fits(m, nil, wanted); possible != (err == nil) {
			t.Fatalf("%s %v: %v, and a search says %v", m.Name, counts, err, possible)
		}
		if err == nil {
			checkPartition(t, m, got)
			if len(got) != len(wanted) {
				t.Fatalf("%d instances for %v", len(got), counts)
			}
		}
	})
}

func fits(m Model, have []Instance, wanted []Profile) bool {
	if len(wanted) == 0 {
		return true
	}
	for _, start := range m.Free(have, wanted[0]) {
		if fits(m, with(have, Instance{Profile: wanted[0], Start: start}), wanted[1:]) {
			return true
		}
	}
	return false
}

func TestLayoutRefuses(t *testing.T) {
	h100, _ := Lookup("h100")
	for _, c := range []struct {
		counts map[string]int
		want   error
	}{
		{map[string]int{"1g.5gb": 1}, ErrInvalid}, {map[string]int{"1g.10gb": -1}, ErrInvalid},
		{map[string]int{"1g.10gb": 8}, ErrInsufficient}, {map[string]int{"1g.10gb": 1 << 40}, ErrInsufficient},
		{map[string]int{"4g.40gb": 1, "3g.40gb": 2}, ErrInsufficient}, {nil, nil},
	} {
		if _, err := h100.Layout(c.counts); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.counts, err, c.want)
		}
	}
}

// MIG devices of one GPU, and of several, have different UUIDs, and the same ones in every process.
func TestInstanceUUIDs(t *testing.T) {
	h100, _ := Lookup("h100")
	seen := map[string]bool{}
	for _, d := range Devices("node", []Group{{Model: h100, Count: 2}}) {
		list, err := h100.Layout(map[string]int{"1g.10gb": 7})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			seen[d.InstanceUUID(i)] = true
		}
	}
	if len(seen) != 14 {
		t.Errorf("%d UUIDs for 14 MIG devices", len(seen))
	}
	d := Devices("node", []Group{{Model: h100, Count: 1}})[0]
	list, _ := h100.Layout(map[string]int{"7g.80gb": 1})
	if diff := cmp.Diff("MIG-", d.InstanceUUID(list[0])[:4]); diff != "" {
		t.Error(diff)
	}
}
