package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ownKey is a label, an annotation or a condition of berth.dev, as text. sim.berth.dev has the simulated fleet's.
var ownKey = regexp.MustCompile(`^berth\.dev/[A-Za-z-]*$`)

// Keys of berth.dev are a contract with users, and are spelled in one package: api/v1alpha1.
func TestKeysAreSpelledOnce(t *testing.T) {
	for _, p := range list(t, "./...") {
		if p.path() == "api/v1alpha1" {
			continue
		}
		names, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(p.path()), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if s, err := strconv.Unquote(l.Value); err == nil && ownKey.MatchString(s) {
						t.Errorf("%s: the key %s is spelled outside of api/v1alpha1", fset.Position(l.Pos()), s)
					}
				}
				return true
			})
		}
	}
}
