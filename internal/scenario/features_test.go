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
	yes := regexp.MustCompile(`^(?:yes: |in part: )\[[^]]+\]\(\.\./((?:scenarios|cmd/berth/testdata/script)/[a-z0-9-]+\.txtar)\)(; \S.{20,})?$`)
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
		case m != nil && strings.HasPrefix(answer, "in part") != (m[2] != ""):
			t.Errorf("row %d: %q: want what is missing behind in part, and nothing behind yes", number, answer)
		case m != nil:
			shown(t, number, filepath.Join(root, filepath.FromSlash(m[1])))
		case !no.MatchString(answer):
			t.Errorf("row %d: %q: want yes with a story, or no with a reason", number, answer)
		}
	}
	if next != 61 {
		t.Errorf("%d rows, want 60", next-1)
	}
}

// shown plays a story of scenarios. Those of the command line are played by the test of cmd/berth, all of them.
func shown(t *testing.T, row int, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("row %d: %v", row, err)
		return
	}
	if filepath.Base(filepath.Dir(file)) == "script" {
		return
	}
	story, err := Parse(filepath.Base(file), data)
	if err != nil {
		t.Errorf("row %d: %v", row, err)
		return
	}
	if got, err := Run(story); err != nil || string(got) != string(data) {
		t.Errorf("row %d: %s does not go as it is told: %v", row, story.Name, err)
	}
}
