package fit

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func TestRequirementMatches(t *testing.T) {
	labels := map[string]string{"pool": "a", "gpus": "8", "empty": "", "huge": "9223372036854775808"}
	for _, c := range []struct {
		r    Requirement
		want bool
	}{
		{Requirement{"pool", In, []string{"b", "a"}}, true},
		{Requirement{"pool", In, []string{"b"}}, false},
		{Requirement{"none", In, []string{""}}, false},
		{Requirement{"empty", In, []string{""}}, true},
		{Requirement{"pool", NotIn, []string{"b"}}, true},
		{Requirement{"pool", NotIn, []string{"a"}}, false},
		{Requirement{"none", NotIn, []string{"a"}}, true},
		{Requirement{"none", NotIn, nil}, false},
		{Requirement{"pool", Exists, nil}, true},
		{Requirement{"none", Exists, nil}, false},
		{Requirement{"pool", Exists, []string{"a"}}, false},
		{Requirement{"none", DoesNotExist, nil}, true},
		{Requirement{"pool", DoesNotExist, nil}, false},
		{Requirement{"none", DoesNotExist, []string{"a"}}, false},
		{Requirement{"gpus", Gt, []string{"7"}}, true},
		{Requirement{"gpus", Gt, []string{"8"}}, false},
		{Requirement{"gpus", Lt, []string{"+09"}}, true},
		{Requirement{"gpus", Lt, []string{"8"}}, false},
		{Requirement{"gpus", Gt, []string{"1", "2"}}, false},
		{Requirement{"gpus", Gt, []string{"x"}}, false},
		{Requirement{"pool", Gt, []string{"1"}}, false},
		{Requirement{"huge", Gt, []string{"1"}}, false},
		{Requirement{"none", Lt, []string{"1"}}, false},
		{Requirement{"pool", "Like", []string{"a"}}, false},
	} {
		if got := c.r.Matches(labels); got != c.want {
			t.Errorf("%v: got %v, want %v", c.r, got, c.want)
		}
	}
}

func TestRequirementString(t *testing.T) {
	for want, r := range map[string]Requirement{
		"gpu-pool in (a,b)":  {"gpu-pool", In, []string{"a", "b"}},
		"gpu-pool notin (a)": {"gpu-pool", NotIn, []string{"a"}},
		"key":                {"key", Exists, nil},
		"!key":               {"key", DoesNotExist, nil},
		"key>4":              {"key", Gt, []string{"4"}},
		"key<4":              {"key", Lt, []string{"4"}},
		"key Like (a)":       {"key", "Like", []string{"a"}},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// message is an error's text, or "" for none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRequirementCheck(t *testing.T) {
	for _, c := range []struct {
		r    Requirement
		want string
	}{
		{Requirement{"example.com/pool", In, []string{"a", ""}}, ""},
		{Requirement{"pool", Exists, nil}, ""},
		{Requirement{"gpus", Gt, []string{"4"}}, ""},
		{Requirement{"pool", In, nil}, `requirement "pool in ()": In needs at least one value`},
		{Requirement{"pool", NotIn, nil}, `requirement "pool notin ()": NotIn needs at least one value`},
		{Requirement{"pool", Exists, []string{"a"}}, `requirement "pool": Exists takes no value`},
		{Requirement{"pool", Gt, []string{"1", "2"}}, `requirement "pool>1,2": Gt needs exactly one value`},
		{Requirement{"pool", Lt, []string{"x"}}, `requirement "pool<x": "x" is not a 64-bit integer`},
		{Requirement{"pool", "Like", nil}, `requirement "pool Like ()": unknown operator "Like"`},
		{Requirement{"a/b/c", Exists, nil}, `requirement "a/b/c": the key is not a label key`},
		{Requirement{"pool", In, []string{"a b"}}, `requirement "pool in (a b)": "a b" is not a label value`},
	} {
		if got := message(c.r.Check()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestIntegerReadsWhatStrconvReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.StringMatching(`[+-]?[0-9]{0,3}(922337203685477580)?[0-9]{0,2}[_x]?`),
			rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
		).Draw(t, "text")
		want, err := strconv.ParseInt(s, 10, 64)
		got, ok := integer(s)
		if ok != (err == nil) || ok && got != want {
			t.Fatalf("%q: got %d, %v; want %d, %v", s, got, ok, want, err)
		}
	})
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	labels := map[string]string{"pool": "a", "gpus": "8"}
	prefs := []Preference{
		{50, Term{Labels: []Requirement{{"pool", In, []string{"b", "a"}}, {"gpus", Gt, []string{"4"}}}}},
		{20, Term{Labels: []Requirement{{"pool", Gt, []string{"4"}}}}}, // not a number
		{10, Term{Fields: []Requirement{{"metadata.name", In, []string{"n1"}}}}},
	}
	taint := Taint{"dedicated", "gpu", NoSchedule}
	toleration := Toleration{"dedicated", "Equal", "gpu", ""}
	port := Port{Port: 80}
	allocs := testing.AllocsPerRun(100, func() {
		if weigh(prefs, labels, "n1") != 60 {
			t.Error("wrong weight")
		}
		if !toleration.Tolerates(taint) {
			t.Error("not tolerated")
		}
		if !port.Conflicts(Port{"10.0.0.1", "TCP", 80}) {
			t.Error("no conflict")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
