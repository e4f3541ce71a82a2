package tiny

import "testing"

func TestAdd(t *testing.T) {
	for name, c := range map[string]struct {
		word string
		want bool
	}{
		"empty": {"", false},
		"long":  {"incomprehensible", false},
		"space": {"a b", false},
		"plain": {"Berth", true},
	} {
		t.Run(name, func(t *testing.T) {
			var x tally
			if got := x.add(c.word); got != c.want {
				t.Errorf("add(%q) = %v", c.word, got)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	var x tally
	x.add("Berth")
	if x.total != 1 {
		t.Errorf("total %d", x.total)
	}
}

func TestLower(t *testing.T) {
	var x tally
	x.add("Berth")
	if x.words[0] != "berth" {
		t.Errorf("words %q", x.words)
	}
}

func TestTryTakesBack(t *testing.T) {
	var x tally
	x.try("a", "b")
	if len(x.words) != 0 {
		t.Errorf("words %q", x.words)
	}
}

func TestLast(t *testing.T) {
	if got := last([]string{"a", "b"}); got != 1 {
		t.Errorf("last is %d", got)
	}
}
