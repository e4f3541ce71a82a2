package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/features.md answers for every capability of the study, by number: yes with the story that shows it, which must
// exist and be played by a test, or no with a reason.
func TestFeaturesAreShown(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "docs", "features.md"))
	if err != nil {
		t.Fatal(err)
	}
	yes := regexp.MustCompile(`^yes: \[[^]]+\]\(\.\./((?:scenarios|cmd/berth/testdata/(?:script|policy))/[a-z0-9-]+\.txtar)\)$`)
	no := regexp.MustCompile(`^no: \S.{20,}$`)
	next := 1
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil {
			continue
		}
		if number != next || len(cells) != 16 {
			t.Fatalf("row %d with %d cells, want row %d with 16", number, len(cells), next)
		}
		next++
		answer := strings.TrimSpace(cells[15])
		m := yes.FindStringSubmatch(answer)
		switch {
		case m != nil:
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("row %d: %v", number, err)
			}
		case !no.MatchString(answer):
			t.Errorf("row %d: %q: want yes with a story, or no with a reason", number, answer)
		}
	}
	if next != 58 {
		t.Errorf("%d rows, want 57", next-1)
	}
}
