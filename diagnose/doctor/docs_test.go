package doctor_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/diagnose/doctor"
)

// TestDocumentation holds docs/doctor.md to the checklist; -update writes its table.
func TestDocumentation(t *testing.T) {
	const path, begin, end = "../../docs/doctor.md", "<!-- items -->\n", "<!-- /items -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), begin)
	got, tail, also := strings.Cut(rest, end)
	if !found || !also {
		t.Fatalf("%s has no table of items", path)
	}
	want := "| item | on a cluster that is well | why | owner |\n|---|---|---|---|\n"
	for _, item := range doctor.Items {
		want += "| `" + item.Code + "` | " + item.Title + " | " + item.Meaning + " | " + string(item.Owner) + " |\n"
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		got = want
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}
