package main

import (
	"os"
	"strings"
	"testing"
)

// What the document says is run, excepted and left for later is what the program does.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile("../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), document()) {
		t.Error("docs/conformance.md does not have these tables; put in what `go run ./internal/conformance/upstream -table` prints")
	}
}
