package doctor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestItemsCanBeDeleted holds that nothing but list.go names what an item's file declares, so that deleting the file and
// its line deletes the item and nothing else.
func TestItemsCanBeDeleted(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files, home := make(map[string]*ast.File), make(map[string]string)
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[p] = f
		for _, name := range declared(f) {
			if shown, _ := filepath.Glob(strings.TrimSuffix(p, ".go") + ".txtar"); len(shown) == 1 { // an item's file
				home[name] = p
			}
		}
	}
	if len(home) == 0 {
		t.Fatal("no file of an item")
	}
	for p, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Obj == nil && home[id.Name] != "" && home[id.Name] != p && p != "list.go" {
				t.Errorf("%s uses %s of %s: move it to a file that is no item's", p, id.Name, home[id.Name])
			}
			return true
		})
	}
}

// declared are the names that the file declares at the top level, those of methods among them.
func declared(f *ast.File) (out []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			out = append(out, d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					out = append(out, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						out = append(out, name.Name)
					}
				}
			}
		}
	}
	return out
}
