package shell

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/shell/internal/lang"
)

// TestDocs checks that docs/shell.md lists the commands there are; -update writes the lists.
func TestDocs(t *testing.T) {
	const name = "../../docs/shell.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	want := text
	for mark, list := range map[string][]string{"commands": slices.Sorted(maps.Keys(builtin())), "builtins": lang.Builtins()} {
		head, rest, ok := strings.Cut(want, "<!-- "+mark+" -->\n")
		_, tail, ok2 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 {
			t.Fatalf("no %s section", mark)
		}
		want = head + "<!-- " + mark + " -->\n`" + strings.Join(list, "` `") + "`\n<!-- end -->" + tail
	}
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("run go test -update (-want +got):\n%s", diff)
	}
}

// TestUsage checks that every command has a usage line and refuses what it does not know.
func TestUsage(t *testing.T) {
	for name, cmd := range builtin() {
		if name != cmd.name || cmd.run == nil {
			t.Errorf("%s: bad entry %+v", name, cmd)
		}
		if strings.HasPrefix(cmd.flags, "=") {
			continue
		}
		got := runIn(t, newContainer(), "", name, "-~")
		want := result{Stderr: name + ": unrecognized option: ~\nusage: " + name + " " + cmd.usage + "\n", Status: 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
