package lang

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, value string
		want           bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"a*c", "abc", true}, {"a*c", "abd", false}, {"?", "é", true}, {"[a-c]", "b", true},
		{"[!a-c]", "b", false}, {`\*`, "*", true}, {`\*`, "x", false}, {"a", "A", false}, {"[", "[", true}, {"@(a|b)", "b", true}, {"", "", true},
	} {
		if got := (&Shell{}).matches(tc.pattern, tc.value); got != tc.want {
			t.Errorf("matches(%q, %q) = %v", tc.pattern, tc.value, got)
		}
	}
}

func TestPrintf(t *testing.T) {
	for _, tc := range []struct {
		format string
		args   []string
		want   string
	}{
		{"%s", nil, ""}, {"%s %s|", []string{"a", "b", "c"}, "a b|c |"}, {"%5s|%-5s|", []string{"a", "b"}, "    a|b    |"},
		{"%05.1f", []string{"3.14159"}, "003.1"}, {"%d %i %u", []string{"1", "-2", "3"}, "1 -2 3"}, {"%x %X %o %#x", []string{"255", "255", "8", "16"}, "ff FF 10 0x10"},
		{"%d", []string{"0x10"}, "16"}, {"%d", []string{"'A"}, "65"}, {"%c%c", []string{"xyz", "é"}, "xé"}, {"%b", []string{`a\tb\0101`}, "a\tbA"},
		{`\x41\102\n\\`, nil, "AB\n\\"}, {"%%", nil, "%"}, {"%*d", []string{"4", "7"}, "   7"}, {`a\cb`, nil, "a"}, {"%.2s", []string{"abc"}, "ab"}, {"%e", []string{"1"}, "1.000000e+00"},
	} {
		f := formatter{shell: &Shell{life: t.Context()}, format: tc.format, args: tc.args, out: new(budget.Buffer)}
		if got, _ := f.run(); got != tc.want || f.err != nil {
			t.Errorf("printf %q %q = %q, %v; want %q", tc.format, tc.args, got, f.err, tc.want)
		}
	}
	for _, bad := range []string{"%", "%z", "%99999d", "%5"} {
		f := formatter{shell: &Shell{life: t.Context()}, format: bad, args: []string{"1"}, out: new(budget.Buffer)}
		if _, _ = f.run(); f.err == nil {
			t.Errorf("printf %q is accepted", bad)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for name, want := range map[string]Signal{"TERM": SIGTERM, "SIGTERM": SIGTERM, "sigint": SIGINT, "9": SIGKILL, "0": 0} {
		if got, ok := ParseSignal(name); got != want || !ok {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "NOPE", "-1", "65"} {
		if got, ok := ParseSignal(name); ok {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestArrayElements compares arrays with a map from index to value, and checks that they
// keep the shape that the expand package wants.
func TestArrayElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vr := expand.Variable{Kind: expand.Indexed, List: []string{}}
		model := map[int]string{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			i := rapid.IntRange(0, 12).Draw(t, "index")
			if rapid.Bool().Draw(t, "remove") {
				removeElement(&vr, i)
				delete(model, i)
				continue
			}
			value := rapid.StringMatching("[a-z]").Draw(t, "value")
			before := append([]string{}, vr.List...)
			old := vr.List
			setElement(&vr, i, value)
			if diff := cmp.Diff(before, append([]string{}, old...)); diff != "" {
				t.Fatalf("the shared list changed:\n%s", diff)
			}
			model[i] = value
		}
		got := map[int]string{}
		last := -1
		for k, v := range vr.List {
			i := k
			if vr.Indexes != nil {
				i = vr.Indexes[k]
			}
			if i <= last {
				t.Fatalf("indexes %v are not sorted", vr.Indexes)
			}
			last = i
			got[i] = v
		}
		if diff := cmp.Diff(model, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestVariableBooks checks that the size of all variables is kept right through scopes.
func TestVariableBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVars([]string{"A=1", "B=22"}, nil)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				v.push()
			case 1:
				if v.top() > 0 {
					v.pop()
				}
			case 2:
				_ = v.set(name, expand.Variable{})
			default:
				local := rapid.Bool().Draw(t, "local") && v.top() > 0
				value := strings.Repeat("x", rapid.IntRange(0, 9).Draw(t, "size"))
				_ = v.set(name, expand.Variable{Set: true, Kind: expand.String, Str: value, Local: local})
			}
		}
		size := int64(0)
		for _, scope := range v.scopes {
			for name, vr := range scope {
				size += int64(len(name)) + sizeOf(vr)
			}
		}
		if size != v.size {
			t.Fatalf("size %d, want %d", v.size, size)
		}
	})
}

// FuzzParse feeds the parser, which must neither panic nor let a refused construct through.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"echo hi", "cat <(x)", "a=b\\ c", "((1+(2)))", "[[ ! a && b =~ c\\.d ]]", "cat <<-E\n\tx\\$y\n\tE\n", "coproc x", "`a`", "${a:-${b//c/d}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		failed := false
		for st, err := range statements(src, nil) {
			if failed {
				t.Fatal("goes on after an error")
			}
			if err != nil {
				failed = true
				continue
			}
			syntax.Walk(st, func(n syntax.Node) bool {
				switch n.(type) {
				case *syntax.ProcSubst, *syntax.CoprocClause:
					t.Errorf("%T got through", n)
				}
				return true
			})
		}
	})
}
