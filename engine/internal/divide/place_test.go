package divide

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// domains has the given caps, with IDs from 10.
func domains(caps ...int) []Domain {
	d := make([]Domain, len(caps))
	for i, c := range caps {
		d[i] = Domain{ID: int32(10 + i), Cap: c}
	}
	return d
}

type outcome struct {
	Shares []Share
	OK     bool
}

func result(shares []Share, ok bool) outcome { return outcome{shares, ok} }

func TestTightest(t *testing.T) {
	for _, c := range []struct {
		caps  []int
		k     int
		index int
		ok    bool
	}{
		{nil, 1, -1, false},
		{[]int{3, 2}, 4, -1, false},
		{[]int{8, 4, 5, 4}, 3, 1, true},
		{[]int{8, 4}, 5, 0, true},
		{[]int{-1, 0}, 0, 1, true},
	} {
		index, ok := Tightest(domains(c.caps...), c.k)
		if index != c.index || ok != c.ok {
			t.Errorf("Tightest(%v, %d) = %d, %v; want %d, %v", c.caps, c.k, index, ok, c.index, c.ok)
		}
	}
}

func TestTables(t *testing.T) {
	for _, c := range []struct {
		name string
		got  outcome
		want outcome
	}{
		{"pack nothing", result(Pack(nil, 0)), outcome{nil, true}},
		{"pack too much", result(Pack(domains(2, 3), 6)), outcome{nil, false}},
		{"pack into the tightest", result(Pack(domains(9, 4, 6, 4), 4)), outcome{[]Share{{11, 4}}, true}},
		{"pack largest first, rest tight", result(Pack(domains(2, 8, 4, 8, 3), 11)),
			outcome{[]Share{{11, 8}, {14, 3}}, true}},
		{"pack past a negative cap", result(Pack(domains(-4, 2, 2), 4)),
			outcome{[]Share{{11, 2}, {12, 2}}, true}},

		{"balance in one", result(Balance(domains(9, 6), 6)), outcome{[]Share{{11, 6}}, true}},
		{"balance by one more", result(Balance(domains(5, 5, 4, 9), 14)),
			outcome{[]Share{{10, 5}, {11, 5}, {12, 4}}, true}},
		{"balance over more than fit needs", result(Balance(domains(6, 2, 2, 2, 2), 8)),
			outcome{[]Share{{11, 2}, {12, 2}, {13, 2}, {14, 2}}, true}},
		{"balance impossible", result(Balance(domains(6, 1), 7)), outcome{nil, false}},

		{"spread evenly", result(Spread(domains(4, 4, 4), nil, 7)),
			outcome{[]Share{{10, 3}, {11, 2}, {12, 2}}, true}},
		{"spread beside members", result(Spread(domains(4, 4, 1), []int{3, 0, 0}, 4)),
			outcome{[]Share{{11, 3}, {12, 1}}, true}},
		{"spread too much", result(Spread(domains(1, 1), nil, 3)), outcome{nil, false}},

		{"segments in the tightest", result(Segments(domains(16, 10, 12), 10, 4)),
			outcome{[]Share{{11, 8}, {11, 2}}, true}},
		{"partial in a gap", result(Segments(domains(9, 8, 8), 17, 8)),
			outcome{[]Share{{10, 8}, {11, 8}, {10, 1}}, true}},
		{"partial keeps a whole place free", result(Segments(domains(16, 16, 9, 5), 33, 8)),
			outcome{[]Share{{10, 16}, {11, 16}, {13, 1}}, true}},
		{"partial in the place of a full one", result(Segments(domains(8, 8), 9, 8)),
			outcome{[]Share{{11, 8}, {10, 1}}, true}},
		{"segments that only add up", result(Segments(domains(7, 7, 7), 16, 8)), outcome{nil, false}},
		{"no size", result(Segments(domains(7), 1, 0)), outcome{nil, false}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCountSegments(t *testing.T) {
	if got := CountSegments(domains(9, 7, 16, -3), 4); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	if got := CountSegments(domains(9), 0); got != 0 {
		t.Errorf("size 0: got %d, want 0", got)
	}
}

func TestOneAllocation(t *testing.T) {
	d, held := domains(3, 9, 4, 4, 8, 1, 7, 7), []int{0, 3, 1, 0, 0, 2, 1, 1}
	for name, f := range map[string]func(){
		"pack":     func() { Pack(d, 20) },
		"balance":  func() { Balance(d, 20) },
		"spread":   func() { Spread(d, held, 20) },
		"segments": func() { Segments(d, 21, 4) },
	} {
		if n := testing.AllocsPerRun(100, f); n > 1 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
