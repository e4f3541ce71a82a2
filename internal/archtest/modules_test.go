package archtest

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// required are the modules that go.mod names. Every import of this module's packages is of one of them.
func required(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	paths := make([]string, len(mod.Require))
	for i, r := range mod.Require {
		paths[i] = r.Path
	}
	return paths
}

// moduleOf is the module that the import is of: of nested ones the innermost. "" for the standard library and this module.
func moduleOf(imp string, modules []string) string {
	if imp == module || strings.HasPrefix(imp, module+"/") || !strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
		return ""
	}
	found := ""
	for _, m := range modules {
		if (imp == m || strings.HasPrefix(imp, m+"/")) && len(m) > len(found) {
			found = m
		}
	}
	if found == "" {
		return imp
	}
	return found
}

// A package imports the modules that its row lists, and all of them.
func TestModulesAreListed(t *testing.T) {
	modules, packages := required(t), map[string]bool{}
	for _, p := range list(t, "./...") {
		packages[p.path()] = true
		var uses []string
		for _, imp := range p.Imports {
			if m := moduleOf(imp, modules); m != "" && !slices.Contains(uses, m) {
				uses = append(uses, m)
			}
		}
		for _, m := range uses {
			if !slices.Contains(Modules[p.path()], m) {
				t.Errorf("%s imports %s, which its row in archtest.Modules does not list", p.path(), m)
			}
		}
		for _, m := range Modules[p.path()] {
			if !slices.Contains(uses, m) {
				t.Errorf("%s does not import %s, which its row in archtest.Modules lists", p.path(), m)
			}
		}
	}
	for path := range Modules {
		if !packages[path] {
			t.Errorf("archtest.Modules has a row for %s, which does not exist", path)
		}
	}
}

func TestModuleOf(t *testing.T) {
	modules := []string{"k8s.io/api", "go.etcd.io/etcd", "go.etcd.io/etcd/server/v3"}
	for imp, want := range map[string]string{
		"fmt": "", module: "", module + "/engine": "", "k8s.io/api/core/v1": "k8s.io/api", "k8s.io/apimachinery/x": "k8s.io/apimachinery/x",
		"go.etcd.io/etcd/server/v3/embed": "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/client": "go.etcd.io/etcd",
	} {
		if got := moduleOf(imp, modules); got != want {
			t.Errorf("%s is of %q, want %q", imp, got, want)
		}
	}
}
