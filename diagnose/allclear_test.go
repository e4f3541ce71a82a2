package diagnose_test

import (
	"path"
	"strings"
	"testing"

	"github.com/berth-dev/berth/diagnose"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/engine/why"
)

// TestNoAllClearWithoutItsCheck takes each check away in turn: what it would have found is then unknown, or found by
// another check. It is never healthy: nobody knows every cause, and people act on "nothing is wrong".
func TestNoAllClearWithoutItsCheck(t *testing.T) {
	for _, name := range caseNames(t) {
		c := loadCase(t, name, fixedSeed())
		if c.Layer == string(check.None) || foretold(name) {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			got := c.diagnoseWithout(t, why.Cause(c.Cause))
			if got.Cause == diagnose.Healthy || got.Layer == check.None && got.Cause != diagnose.Unknown {
				t.Errorf("without %s (%s): %s %s: %s", c.Cause, path.Base(name), got.Layer, got.Cause, got.Summary)
			}
		})
	}
}

// foretold are cases in which nothing has gone wrong yet: only a check that knows what the program, or a controller, will do
// can say so.
func foretold(name string) bool {
	return strings.HasPrefix(name, "pod-evicted/taint-tolerated-for-a-while") || strings.HasPrefix(name, "cronjob-never-due/") && !strings.Contains(name, "/neighbour-") || strings.HasPrefix(name, "cuda-newer-than-driver/ahead-of-start") || strings.HasPrefix(name, "world-size-mismatch/") && !strings.Contains(name, "/neighbour-")
}
