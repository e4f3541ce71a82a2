package scheduler

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

// TestMain makes room for what happens at one moment of a simulated time: the fake API server panics where a watcher is a
// hundred events behind, which a real one is told by an end of its watch. At the end it holds what the schedulers of all tests
// asked for against their role: every right is used, and none is missing.
func TestMain(m *testing.M) {
	watch.DefaultChanSize = 10_000
	code := m.Run()
	if problems := auditRights(); len(problems) > 0 {
		fmt.Println(strings.Join(problems, "\n"))
		code = 1
	}
	os.Exit(code)
}
