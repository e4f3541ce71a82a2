package main

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
)

// Code 3 says that nothing could be read, which is nobody's wrong answer.
func TestDied(t *testing.T) {
	for code, want := range map[int]bool{1: false, 2: true, 3: false} {
		err := exec.Command("sh", "-c", fmt.Sprintf("exit %d", code)).Run()
		if got := died(fmt.Errorf("berth why: %w", errors.Join(err, errors.New("unexpected end of JSON input")))); got != want {
			t.Errorf("exit code %d: got %v, want %v", code, got, want)
		}
	}
	if died(nil) || died(errors.New("no answer")) {
		t.Error("what did not exit has no code")
	}
}
