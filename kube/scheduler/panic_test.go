package scheduler

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestAPanicEndsTheRunWithItsStack(t *testing.T) {
	var log bytes.Buffer
	lead := func() (err error) {
		defer recovered(&err, slog.New(slog.NewTextHandler(&log, nil)))
		panic("half a gang is placed")
	}
	if err := lead(); err == nil || err.Error() != "scheduler: panic: half a gang is placed" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(log.String(), "panic_test.go") {
		t.Errorf("the log has no stack:\n%s", log.String())
	}
}
