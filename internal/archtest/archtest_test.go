package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// listed is what the go command says of a package.
type listed struct {
	ImportPath, Doc                    string
	Standard                           bool
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

func (p listed) path() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// imports are those of the package and of its tests, each once.
func (p listed) imports() []string {
	all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	slices.Sort(all)
	return slices.Compact(all)
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Doc,Standard,Imports,TestImports,XTestImports,Deps"}, args...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestEveryPackageHasARule(t *testing.T) {
	found := map[string]bool{}
	for _, p := range list(t, "./...") {
		found[p.path()] = true
		if _, ok := Rules[p.path()]; !ok {
			t.Errorf("package %s has no row in archtest.Rules: which ring is it in, and what may it import?", p.path())
		}
		if p.Doc == "" {
			t.Errorf("package %s has no package comment: what is it, what is it not, who calls it?", p.path())
		}
	}
	for path := range Rules {
		if !found[path] {
			t.Errorf("archtest.Rules has a row for %s, which does not exist", path)
		}
	}
}

func TestImportsPointInward(t *testing.T) {
	for _, p := range list(t, "./...") {
		for _, problem := range violations(p, Rules) {
			t.Error(problem)
		}
	}
}

// violations are the imports of p that its rule does not allow.
func violations(p listed, rules map[string]Rule) []string {
	rule := rules[p.path()]
	var out []string
	for _, imp := range p.imports() {
		own, isOwn := strings.CutPrefix(imp, module+"/")
		switch {
		case imp == p.ImportPath: // an external test of the package itself
		case !slices.Contains(p.Imports, imp) && (!isOwn || slices.Contains(rule.Tests, own)): // a test's alone
		case isOwn && !slices.Contains(rule.Imports, own):
			out = append(out, p.path()+" imports "+own+", which its row in archtest.Rules does not allow")
		case isOwn && rules[own].Ring > rule.Ring:
			out = append(out, p.path()+" imports "+own+", which is further out")
		case !isOwn && rule.Objects && objects(imp):
		case !isOwn && rule.Ring == Pure && strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
			out = append(out, p.path()+" is pure and imports "+imp)
		}
	}
	return out
}

// objects says whether the package is of Kubernetes' objects as values, or of notations in them (patches, schedules): no
// client is among them.
func objects(path string) bool {
	return slices.ContainsFunc([]string{"k8s.io/api/", "k8s.io/apimachinery/", "k8s.io/component-helpers/scheduling/", "k8s.io/component-helpers/resource", "k8s.io/component-helpers/storage/", "k8s.io/component-helpers/nodedeclaredfeatures", "k8s.io/dynamic-resource-allocation/resourceclaim", "k8s.io/utils/ptr", "gopkg.in/evanphx/json-patch.v4", "github.com/robfig/cron/v3"}, func(prefix string) bool {
		return strings.HasPrefix(path, prefix)
	})
}

func TestOnlyHeavyPackagesCompileKubernetes(t *testing.T) {
	for _, p := range list(t, "-test", "./...") {
		path, _, _ := strings.Cut(p.path(), " ") // "cli [cli.test]"
		path = strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
		if Rules[path].Heavy {
			continue
		}
		i := slices.IndexFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, kubernetes+"/") })
		if i >= 0 {
			t.Errorf("%s compiles %s: only controlplane, cmd/berth and internal/conformance may", p.ImportPath, p.Deps[i])
		}
	}
}

// The checks themselves must be able to fail.
func TestViolationsAreFound(t *testing.T) {
	rules := map[string]Rule{
		"engine": {Ring: Pure},
		"kube":   {Ring: Edge, Imports: []string{"engine"}},
		"cli":    {Ring: Shell, Imports: []string{"kube"}},
		"read":   {Ring: Pure, Objects: true},
	}
	for _, c := range []struct {
		what string
		pkg  listed
		want int
	}{
		{"allowed", listed{ImportPath: module + "/kube", Imports: []string{module + "/engine", "k8s.io/api/core/v1"}}, 0},
		{"outward", listed{ImportPath: module + "/engine", Imports: []string{module + "/kube"}}, 1},
		{"not in the row", listed{ImportPath: module + "/cli", Imports: []string{module + "/engine"}}, 1},
		{"pure with a dependency", listed{ImportPath: module + "/engine", Imports: []string{"k8s.io/api/core/v1"}}, 1},
		{"pure with a dependency that its tests use too", listed{ImportPath: module + "/engine", Imports: []string{"k8s.io/api/core/v1"}, TestImports: []string{"k8s.io/api/core/v1"}}, 1},
		{"a test's dependency", listed{ImportPath: module + "/engine", XTestImports: []string{"pgregory.net/rapid"}}, 0},
		{"a test that reaches outward", listed{ImportPath: module + "/engine", XTestImports: []string{module + "/kube"}}, 1},
		{"pure with objects", listed{ImportPath: module + "/read", Imports: []string{"k8s.io/api/core/v1"}}, 0},
		{"pure with objects and a client", listed{ImportPath: module + "/read", Imports: []string{"k8s.io/client-go/kubernetes"}}, 1},
		{"pure with the standard library", listed{ImportPath: module + "/engine", Imports: []string{"encoding/json"}}, 0},
	} {
		if got := violations(c.pkg, rules); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", c.what, got, c.want)
		}
	}
}
