package fit

import "testing"

func TestTerm(t *testing.T) {
	labels := map[string]string{"pool": "a"}
	here := Requirement{"metadata.name", In, []string{"n1"}}
	elsewhere := Requirement{"metadata.name", NotIn, []string{"n1"}}
	pool := Requirement{"pool", In, []string{"a"}}
	for _, c := range []struct {
		name string
		term Term
		want bool
	}{
		{"empty", Term{}, false},
		{"label", Term{Labels: []Requirement{pool}}, true},
		{"name", Term{Fields: []Requirement{here}}, true},
		{"other name", Term{Fields: []Requirement{elsewhere}}, false},
		{"label and name", Term{Labels: []Requirement{pool}, Fields: []Requirement{here}}, true},
		{"label but not name", Term{Labels: []Requirement{pool}, Fields: []Requirement{elsewhere}}, false},
		{"other field", Term{Fields: []Requirement{{"metadata.uid", NotIn, []string{"n1"}}}}, false},
		{"two names", Term{Fields: []Requirement{{"metadata.name", In, []string{"n1", "n2"}}}}, false},
		{"name exists", Term{Fields: []Requirement{{"metadata.name", Exists, nil}}}, false},
		{"name compared", Term{Fields: []Requirement{{"metadata.name", Gt, []string{"1"}}}}, false},
	} {
		if got := c.term.Matches(labels, "n1"); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if matchesAny(nil, labels, "n1") {
		t.Error("no terms matched")
	}
	if !matchesAny([]Term{{}, {Labels: []Requirement{pool}}}, labels, "n1") {
		t.Error("the second term did not match")
	}
}

func TestTermCheck(t *testing.T) {
	for _, c := range []struct {
		term Term
		want string
	}{
		{Term{}, ""},
		{Term{Labels: []Requirement{{"pool", In, nil}}}, `requirement "pool in ()": In needs at least one value`},
		{Term{Fields: []Requirement{{"metadata.name", In, []string{"n1"}}}}, ""},
		{Term{Fields: []Requirement{{"spec.x", In, []string{"n1"}}}},
			`field requirement "spec.x in (n1)": the only field is metadata.name`},
		{Term{Fields: []Requirement{{"metadata.name", Exists, nil}}},
			`field requirement "metadata.name": a field takes In or NotIn, not "Exists"`},
		{Term{Fields: []Requirement{{"metadata.name", In, []string{"a", "b"}}}},
			`field requirement "metadata.name in (a,b)": In on a field needs exactly one value`},
	} {
		if got := message(c.term.Check()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestPreferenceCheck(t *testing.T) {
	for _, c := range []struct {
		pref Preference
		want string
	}{
		{Preference{100, Term{}}, ""},
		{Preference{0, Term{}}, "preference: weight 0 is not within 1 to 100"},
		{Preference{101, Term{}}, "preference: weight 101 is not within 1 to 100"},
		{Preference{1, Term{Labels: []Requirement{{"pool", In, nil}}}},
			`preference: requirement "pool in ()": In needs at least one value`},
	} {
		if got := message(c.pref.Check()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// matchesAny tells whether any of the terms matches; no terms match nothing. What Term.Matches says of
// terms that fail Check holds here too.
func matchesAny(terms []Term, labels map[string]string, name string) bool {
	for i := range terms {
		if terms[i].Matches(labels, name) {
			return true
		}
	}
	return false
}

// weigh sums the weights of the preferences that match the node.
func weigh(prefs []Preference, labels map[string]string, name string) int64 {
	var sum int64
	for i := range prefs {
		if prefs[i].Term.Matches(labels, name) {
			sum += int64(prefs[i].Weight)
		}
	}
	return sum
}
