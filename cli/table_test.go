package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

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
