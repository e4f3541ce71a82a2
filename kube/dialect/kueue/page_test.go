package kueue

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/dialect"
)

var update = flag.Bool("update", false, "write the table of the page anew")

// The table of the page is made of Fields.
func TestPage(t *testing.T) {
	const page = "../../../docs/from-kueue.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "\n## Field by field\n")
	want := head + "\n## Field by field\n\n" + dialect.Table(New())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !ok || string(text) != want {
		t.Errorf("%s does not have the table of Fields: go test ./kube/dialect/kueue -update", page)
	}
}
