package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mark is one rule of the tree that can be switched off.
type mark struct {
	name string
	file string // below the working directory
	line int    // of the statement
	edit edit   // what switches it off
}

// flag is the variable that is true in the mark's mutant.
func (m mark) flag() string { return flagOf(m.name) }

func flagOf(name string) string { return "mutate_" + strings.ReplaceAll(name, "-", "_") }

func (m mark) place() string { return fmt.Sprintf("%s:%d", m.file, m.line) }

var syntax = regexp.MustCompile(`^//mutate: ([a-z0-9]+(?:-[a-z0-9]+)*)(?: -> (.*\S))?$`)

// find returns the marks under root whose names match, by file and line. All marks are checked, chosen or
// not; the error names every one that is wrong.
func find(root string, choose *regexp.Regexp) ([]mark, error) {
	files, err := sources(root)
	if err != nil {
		return nil, err
	}
	var all []mark
	var wrong []error
	for _, f := range files {
		marks, err := inFile(f)
		all, wrong = append(all, marks...), append(wrong, err)
	}
	wrong = append(wrong, unique(all))
	all = slices.DeleteFunc(all, func(m mark) bool { return !choose.MatchString(m.name) })
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no marks under %s match %q", root, choose)
	}
	return all, nil
}

// sources are the Go files under root that are compiled without tests, in order.
func sources(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// packageOf is the name of the package that the file is of.
func packageOf(path string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil {
		return "", err
	}
	return file.Name.Name, nil
}

func unique(marks []mark) error {
	first := map[string]mark{}
	var wrong []error
	for _, m := range marks {
		if other, ok := first[m.name]; ok {
			wrong = append(wrong, fmt.Errorf("%s: mark %s is also at %s", m.place(), m.name, other.place()))
			continue
		}
		first[m.name] = m
	}
	return errors.Join(wrong...)
}

// inFile returns the marks of one file.
func inFile(path string) ([]mark, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	statements := byLine(fset, file)
	var marks []mark
	var wrong []error
	for _, group := range file.Comments {
		line := fset.Position(group.End()).Line + 1
		for _, c := range group.List {
			if !strings.HasPrefix(c.Text, "//mutate:") {
				continue
			}
			m, err := read(c.Text, source, statements[line])
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", fset.Position(c.Pos()), err))
				continue
			}
			m.file, m.line = path, line
			marks = append(marks, m)
		}
	}
	return marks, errors.Join(wrong...)
}

func read(comment string, source []byte, s statement) (mark, error) {
	parts := syntax.FindStringSubmatch(comment)
	if parts == nil {
		return mark{}, fmt.Errorf("%q is not of the form //mutate: NAME or //mutate: NAME -> EXPR", comment)
	}
	if s.node == nil {
		return mark{}, fmt.Errorf("no statement begins on the line below mark %s", parts[1])
	}
	e, err := s.switchOff(source, flagOf(parts[1]), parts[2])
	if err != nil {
		return mark{}, fmt.Errorf("mark %s: %w", parts[1], err)
	}
	return mark{name: parts[1], edit: e}, nil
}

// statement is a statement and, of a case, whether its list holds conditions.
type statement struct {
	node    ast.Stmt
	base    token.Pos // of the file: a position less base is an offset
	tagless bool
}

// byLine returns the outermost statement that begins on each line. A block is not one: on the line of a
// function it is the function's body.
func byLine(fset *token.FileSet, file *ast.File) map[int]statement {
	found := map[int]statement{}
	tagless := map[ast.Stmt]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SwitchStmt); ok && s.Tag == nil {
			for _, c := range s.Body.List {
				tagless[c] = true
			}
		}
		s, ok := n.(ast.Stmt)
		if _, block := n.(*ast.BlockStmt); block || !ok {
			return true
		}
		line := fset.Position(s.Pos()).Line
		if _, taken := found[line]; !taken {
			found[line] = statement{node: s, base: file.FileStart, tagless: tagless[s]}
		}
		return true
	})
	return found
}
