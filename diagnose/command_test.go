package diagnose_test

import (
	"strings"
	"testing"
)

// A CronJob's Job that waits stays as it was made: a fix changes both, or it would be of the next Job alone, which may never be made.
func TestCommandsOfACronJobReachItsJob(t *testing.T) {
	c := loadCase(t, "fragmented/of-a-cronjob.yaml", fixedSeed())
	got := c.diagnose(t)
	found := false
	for _, f := range got.Fixes {
		if !strings.Contains(f.Command, "kubectl patch cronjob ") {
			continue
		}
		found = true
		if lines := strings.Split(f.Command, "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "kubectl get job ") || !strings.HasSuffix(lines[1], "kubectl replace --force -f -") {
			t.Errorf("the Job that waits is left as it is:\n%s", f.Command)
		}
	}
	if !found {
		t.Errorf("no fix changes the CronJob: %+v", got.Fixes)
	}
}
