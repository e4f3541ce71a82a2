package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// One name that is as long as names may be is written whole, and makes no other line longer.
func TestALongNameIsOfItsOwnLine(t *testing.T) {
	name, text := strings.Repeat("n", 253), strings.Repeat("t", 2000)
	lines := table{
		columns: []column{{head: "NAME"}, {head: "QUEUE"}, {head: "NOW", text: true}, {head: "WHY", text: true}},
		rows:    [][]string{{name, name, text, "why"}, {"job/short", "team", "runs", "it does"}},
	}
	for _, width := range []int{0, 120} {
		var got strings.Builder
		if err := lines.write(&got, width); err != nil {
			t.Fatal(err)
		}
		all := strings.Split(got.String(), "\n")
		if strings.Count(all[1], name) != 2 || width == 0 && !strings.Contains(all[1], text) {
			t.Errorf("%d columns: the names and the text are not whole: %s", width, all[1])
		}
		for _, line := range []string{all[0], all[2]} {
			if n := len(line); n > 2*mostPadding+mostTextPadding+40 {
				t.Errorf("%d columns: %q has %d", width, line, n)
			}
		}
	}
}

func TestATableFitsTheTerminal(t *testing.T) {
	lines := table{
		columns: []column{{head: "NAME"}, {head: "AGE", spare: 2}, {head: "QUEUE", spare: 1}, {head: "WHY", text: true}},
		rows: [][]string{
			{"job/training-of-a-model", "5m", "research", "needs 4 pods of 8 GPUs each; none of the nodes that match has that many free"},
			{"pod/x", "1h", "-", ""},
		},
	}
	for width, want := range map[int]string{
		0: `NAME                      AGE   QUEUE      WHY
job/training-of-a-model   5m    research   needs 4 pods of 8 GPUs each; none of the nodes that match has that many free
pod/x                     1h    -
`,
		80: `NAME                      AGE   QUEUE      WHY
job/training-of-a-model   5m    research   needs 4 pods of 8 GPUs each; none ...
pod/x                     1h    -
`,
		60: `NAME                      AGE   QUEUE      WHY
job/training-of-a-model   5m    research   needs 4 pods o...
pod/x                     1h    -
`,
		57: `NAME                     AGE  QUEUE     WHY
job/training-of-a-model  5m   research  needs 4 pods o...
pod/x                    1h   -
`,
		54: `NAME                     QUEUE     WHY
job/training-of-a-model  research  needs 4 pods of ...
pod/x                    -
`,
		40: `NAME                     WHY
job/training-of-a-model  needs 4 pods...
pod/x
`,
		10: `NAME                     WHY
job/training-of-a-model  ...
pod/x
`,
	} {
		var got strings.Builder
		if err := lines.write(&got, width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%d columns:\n%s", width, diff)
		}
		for _, line := range strings.Split(got.String(), "\n") {
			if n := utf8.RuneCountInString(line); width >= 40 && n > width {
				t.Errorf("%d columns: %q has %d", width, line, n)
			}
		}
	}
}
