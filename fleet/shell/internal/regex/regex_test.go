package regex

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimits(t *testing.T) {
	for _, expr := range []string{
		"((a{100}){100}){100}", "(x{1000}){1000}", strings.Repeat("a", MaxExpr+1), strings.Repeat("(a{100})", 900),
		strings.Repeat("(", 900) + "a{900}" + strings.Repeat(")", 900),
	} {
		if _, err := Compile(expr, nil); err == nil {
			t.Errorf("%.40q compiles", expr)
		}
	}
	re, err := Compile("(a|b|ab)*c{1,50}d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := re.Match(strings.Repeat("a", maxWork)); !errors.Is(err, errWork) {
		t.Errorf("a long text: %v", err)
	}
}

// FuzzEach holds Each, one match at a time, to what package regexp finds in one go.
func FuzzEach(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*", "baaac"}, {`\b`, "one two"}, {"^a", "aaa"}, {"a+b|a", "aaaaab"}, {"(x)?(y)", "xyyx"}, {"", "äö"}, {"(?i)A|b", "aAbB"},
		{"a$", "aa"}, {`\w+`, "über alles"}, {"é|", "eée\xff\xfe"}, {"(?m)^", "a\nb\n"}, {".*?", "abc"}, {`\Q`, "0"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(text) > 200 || len(expr) > 100 {
			return
		}
		bounded, err := Compile(expr, nil)
		if err != nil {
			return
		}
		want := regexp.MustCompile(expr).FindAllStringSubmatchIndex(text, -1)
		var got [][]int
		long := *bounded
		long.size = maxAtOnce + 1
		if long.affordable(text) != nil {
			return
		}
		_ = long.Each(text, func(m []int) error { got = append(got, m); return nil })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q in %q (-regexp +each):\n%s", expr, text, diff)
		}
	})
}
