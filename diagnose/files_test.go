package diagnose_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestChecksCanBeDeleted holds that nothing names what a check's file declares but that file, its own test and the list of
// its layer, so that deleting the file and its line deletes the check and nothing else. A method counts where nothing
// else, no other type's method and no field, has its name.
func TestChecksCanBeDeleted(t *testing.T) {
	for _, layer := range []string{"l1", "l2", "l3", "l4"} {
		t.Run(layer, func(t *testing.T) { checksCanBeDeleted(t, filepath.Join("check", layer)) })
	}
}

func checksCanBeDeleted(t *testing.T, dir string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*ast.File)
	for _, p := range paths {
		if files[filepath.Base(p)], err = parser.ParseFile(token.NewFileSet(), p, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	isCheck := checkFiles(files)
	if len(isCheck) == 0 {
		t.Fatal("no file of a check")
	}
	functions, methods := declared(files)
	for name := range fields(files) {
		delete(methods, name)
	}
	for at, f := range files {
		check := func(name, home string) {
			if home != "" && at != "list.go" && home != at && isCheck[home] && at != strings.TrimSuffix(home, ".go")+"_test.go" {
				t.Errorf("%s uses %s of %s: move it to a file that is no check's", at, name, home)
			}
		}
		called := make(map[*ast.Ident]bool)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				called[n.Sel] = true
				check(n.Sel.Name, methods[n.Sel.Name])
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					called[id] = true // a field
				}
			case *ast.Field:
				for _, id := range n.Names {
					called[id] = true
				}
			case *ast.FuncDecl:
				called[n.Name] = true
			case *ast.Ident:
				if !called[n] && n.Obj == nil {
					check(n.Name, functions[n.Name])
				}
			}
			return true
		})
	}
}

// checkFiles are the files that declare a check.
func checkFiles(files map[string]*ast.File) map[string]bool {
	out := make(map[string]bool)
	for at, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.CompositeLit); ok {
				if t, ok := l.Type.(*ast.SelectorExpr); ok && t.Sel.Name == "Check" {
					out[at] = true
				}
			}
			return true
		})
	}
	return out
}

// fields are the names of fields of structs.
func fields(files map[string]*ast.File) map[string]bool {
	out := make(map[string]bool)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						out[name.Name] = true
					}
				}
			}
			return true
		})
	}
	return out
}

// declared are the files of functions, types, variables and constants, and of methods, by name; "" where there are
// several.
func declared(files map[string]*ast.File) (functions, methods map[string]string) {
	functions, methods = make(map[string]string), make(map[string]string)
	add := func(m map[string]string, name, file string) {
		if _, ok := m[name]; ok {
			file = ""
		}
		m[name] = file
	}
	for at, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					add(methods, d.Name.Name, at)
				} else if d.Name.Name != "init" {
					add(functions, d.Name.Name, at)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(functions, s.Name.Name, at)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							add(functions, n.Name, at)
						}
					}
				}
			}
		}
	}
	return functions, methods
}
