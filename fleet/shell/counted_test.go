package shell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuffersAreCounted reads the source for ways to hold bytes that nobody counts. Commands hold what users give
// them in a budget.Buffer, budget.Lines, or after a Take; a use of anything in uncounted needs a reason here why it
// stays small.
func TestBuffersAreCounted(t *testing.T) {
	uncounted := map[string]bool{
		"bytes.Buffer": true, "strings.Builder": true, "io.ReadAll": true, "bufio.NewScanner": true, "strings.Repeat": true, "bytes.Repeat": true,
		"regexp.Compile": true, "regexp.MustCompile": true, "strings.Split": true, "strings.SplitAfter": true, "strings.Fields": true,
		"strings.Join": true, "io.Pipe": true, ".ReadFile": true, ".ReadDir": true, ".ReadBytes": true, ".ReadString": true,
		".FindAllString": true, ".FindAllStringIndex": true, ".FindAllStringSubmatchIndex": true,
	}
	reasons := map[string]string{ // file and use: why it is bounded or where it is counted
		"call.go .ReadDir":                                    "readDir takes for the entries first",
		"curl.go strings.Builder":                             "a header is at most maxHeader",
		"curl.go strings.Join":                                "taken for just before",
		"filter.go strings.Builder":                           "part of a line, which counts eight times; seq flushes at 4 KiB",
		"grep.go strings.Builder":                             "an expression of at most MaxExpr",
		"grep.go strings.Join":                                "an expression of at most MaxExpr",
		"grep.go strings.Split":                               "an expression of at most MaxExpr",
		"image.go strings.Builder":                            "about the machine, not from users",
		"resolve.go strings.Fields":                           "a line of at most 256 bytes",
		"run.go strings.Join":                                 "the arguments again; the caller counted them twice",
		"run.go strings.Repeat":                               "taken for just before",
		"sed.go strings.Join":                                 "taken for just before",
		"sedparse.go strings.Builder":                         "part of the script, which counts four times",
		"system.go strings.Builder":                           "cut at maxShown",
		"system.go strings.Join":                              "words of uname",
		"text.go strings.Join":                                "four numbers",
		"text.go strings.Repeat":                              "at most the width, 7",
		"tr.go strings.Builder":                               "what was read at once: 4 KiB",
		"xargs.go strings.Join":                               "at most maxArgs",
		"internal/lang/builtin.go strings.Join":               "held for just before",
		"internal/lang/call.go strings.Join":                  "held for just before",
		"internal/lang/compound.go strings.Builder":           "held for just before",
		"internal/lang/declare.go strings.Builder":            "a function, whose tree counts many times its text",
		"internal/lang/declare.go strings.Join":               "held for in printVars",
		"internal/lang/dirs.go strings.Join":                  "at most maxDirs paths",
		"internal/lang/expand.go .ReadDir":                    "held for just before",
		"internal/lang/job.go strings.Builder":                "a statement, whose tree counts many times its text",
		"internal/lang/job.go strings.Fields":                 "at most 200 bytes",
		"internal/lang/print.go strings.Builder":              "an argument, held for in echo and printf",
		"internal/lang/print.go strings.Join":                 "held for just before",
		"internal/lang/read.go strings.Builder":               "held for in assignRead",
		"internal/lang/redirect.go strings.Join":              "a here-document, whose lines count as tokens",
		"internal/lang/redirect.go strings.SplitAfter":        "a here-document, whose lines count as tokens",
		"internal/lang/trap.go strings.Builder":               "actions of at most maxAction",
		"internal/regex/regex.go .FindAllStringSubmatchIndex": "a text of at most 1 KiB",
		"internal/regex/regex.go regexp.Compile":              "taken for just before",
		"internal/regex/regex.go regexp.MustCompile":          "counted with the expression",
		"vfs/iofs.go .ReadDir":                                "counted by httpd before it asks",
		"vfs/look.go io.ReadAll":                              "callers say how much, or own the file",
		"vfs/volume.go .ReadDir":                              "for the kubelet, not for commands",
		"vfs/volume.go .ReadFile":                             "for the kubelet, not for commands",
	}
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			use := "." + sel.Sel.Name
			if pkg, ok := sel.X.(*ast.Ident); ok && uncounted[pkg.Name+use] {
				use = pkg.Name + use
			}
			if !uncounted[use] {
				return true
			}
			seen[name+" "+use] = true
			if reasons[name+" "+use] == "" {
				t.Errorf("%s uses %s: count what it holds with package budget, or say in reasons why it is bounded", files.Position(sel.Pos()), use)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for place := range reasons {
		if !seen[place] {
			t.Errorf("%s is no more: take its reason out", place)
		}
	}
}
