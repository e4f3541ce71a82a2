package scheduler

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// recovered turns a panic of the leader's own goroutine into the end of its run: its caller may start it again,
// with a state that is made anew from the cluster. The stack goes to the log.
func recovered(err *error, log *slog.Logger) {
	if p := recover(); p != nil {
		log.Error("panic", "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("scheduler: panic: %v", p)
	}
}
