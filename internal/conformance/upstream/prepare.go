package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kubernetes is the module whose tests are run.
const kubernetes = "k8s.io/kubernetes"

//go:embed giveway.go.txt
var giveWay []byte

// workshop is where the tests are built. The go command replaces no files of the module cache, so the module is
// reached by another path, which a go.mod of its own names: a link, always the same, so that what was compiled
// once stays compiled.
type workshop struct {
	dir    string // of everything that is made
	source string // the link to the module
	cache  string // the folder that the module's path begins in
}

func prepare(ctx context.Context, dir string) (workshop, error) {
	w := workshop{dir: dir, source: filepath.Join(dir, "kubernetes")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return w, fmt.Errorf("folder for the tests: %w", err)
	}
	out, err := command(ctx, "go", "list", "-m", "-f", "{{.Dir}}", kubernetes)
	if err != nil {
		return w, err
	}
	at := strings.TrimSpace(out)
	w.cache = at[:max(0, strings.LastIndex(at, "/"+kubernetes+"@"))]
	if err := relink(at, w.source); err != nil {
		return w, fmt.Errorf("link to %s: %w", kubernetes, err)
	}
	if err := w.module(); err != nil {
		return w, fmt.Errorf("go.mod for the tests: %w", err)
	}
	return w, w.overlay()
}

func relink(target, link string) error {
	if at, err := os.Readlink(link); err == nil && at == target {
		return nil
	}
	if err := os.RemoveAll(link); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

// module writes a go.mod like ours in which Kubernetes is the link.
func (w workshop) module() error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	mod = fmt.Appendf(mod, "\nreplace %s => %s\n", kubernetes, w.source)
	if err := os.WriteFile(filepath.Join(w.dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, "go.sum"), sum, 0o644)
}

// overlay writes the patched helpers and the file that says what replaces what.
func (w workshop) overlay() error {
	helpers := filepath.Join(w.source, "test", "integration", "util")
	src, err := os.ReadFile(filepath.Join(helpers, "util.go"))
	if err != nil {
		return fmt.Errorf("upstream's helpers: %w", err)
	}
	patched, err := patch(src)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for name, content := range map[string][]byte{"util.go": patched, "giveway.go": giveWay} {
		made := filepath.Join(w.dir, name)
		replace[filepath.Join(helpers, name)] = made
		if err := os.WriteFile(made, content, 0o644); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	return os.WriteFile(filepath.Join(w.dir, "overlay.json"), data, 0o644)
}

// build compiles the tests of one folder below test/integration. They may need modules that we do not: the go.mod of their
// own takes these up. Paths are left out whatever GOFLAGS says, and start says where they begin (found).
func (w workshop) build(ctx context.Context, folder string) error {
	_, err := command(ctx, "go", "test", "-c", "-trimpath", "-vet=off", "-mod=mod",
		"-modfile", filepath.Join(w.dir, "go.mod"), "-overlay", filepath.Join(w.dir, "overlay.json"),
		"-o", w.binary(folder), kubernetes+"/test/integration/"+folder)
	return err
}

func (w workshop) binary(folder string) string {
	return filepath.Join(w.dir, strings.ReplaceAll(folder, "/", "-")+".test")
}

func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return out.String(), nil
}
