package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts plays the stories in testdata/script: commands that need no cluster, so that no Kubernetes is compiled.
// cmd/berth has those that do.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			examples, err := filepath.Abs("../examples")
			if err != nil {
				return err
			}
			e.Setenv("EXAMPLES", examples)
			e.Setenv("BERTH_HOME", filepath.Join(e.WorkDir, "clusters"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			return nil
		},
	})
}

func TestMain(m *testing.M) {
	run := func() {
		os.Exit(Main(os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Deps{Program: os.Args[0], Lab: Lab}))
	}
	testscript.Main(m, map[string]func(){"berth": run, "kubectl-berth": run})
}
