package kai

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/kube/dialect"
)

var update = flag.Bool("update", false, "write the table of docs/from-kai.md")

// TestPage holds the page's table against the dialect's own.
func TestPage(t *testing.T) {
	const name, begin, end = "../../../docs/from-kai.md", "-update -->\n", "<!-- end -->"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", name)
	}
	want := "\n" + dialect.Table(New()) + "\n"
	if *update {
		if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("run go test ./kube/dialect/kai -run TestPage -update:\n%s", diff)
	}
}
