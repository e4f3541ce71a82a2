package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// What is read at most. A chart of a large application is far below each of these.
const (
	mostBytes     = 16 << 20 // of one file, or of standard input
	mostFiles     = 1000     // of one folder
	mostTogether  = 64 << 20 // of all files
	mostDocuments = 5000     // in all, with the items of lists
	mostDepth     = 100      // objects and lists inside each other
	mostValues    = 500_000  // in one document, with what its aliases stand for
)

// Stdin is what documents from standard input have as File.
const Stdin = "-"

// Document is one object as it was written.
type Document struct {
	File   string
	Line   int            // where it begins, from 1
	Object map[string]any // as JSON has it

	text  *text  // the document of the file that it is in
	below string // JSON pointer to the object inside of that: "/items/3" for an item of a list
}

// text is one document of a file, byte for byte.
type text struct {
	file  string
	start int // line of its first byte, from 1
	from  int // byte in the file
	bytes []byte
	json  bool
	root  *yamlv3.Node
}

// Error is something wrong with a file, in one line.
type Error struct {
	File string
	Line int // 0: of the whole file
	Text string
}

func (e *Error) Error() string {
	file := e.File
	if file == Stdin {
		file = "standard input"
	}
	if e.Line == 0 {
		return file + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", file, e.Line, e.Text)
}

// Read reads the files, the *.yaml, *.yml and *.json below folders, and in for "-", in the order given and folders by name.
// Documents that are empty are left out. What is no object with apiVersion and kind is an Error.
func Read(paths []string, in io.Reader) ([]Document, error) {
	var out []Document
	together := 0
	for _, p := range paths {
		files := []string{p}
		if info, err := os.Stat(p); p != Stdin && err == nil && info.IsDir() {
			if files, err = below(p); err != nil {
				return nil, err
			}
		}
		for _, file := range files {
			data, err := load(file, in)
			if err != nil {
				return nil, err
			}
			if together += len(data); together > mostTogether {
				return nil, &Error{File: p, Text: fmt.Sprintf("more than %d MiB in all: give a smaller folder, or single files", mostTogether>>20)}
			}
			docs, err := Parse(file, data)
			if err != nil {
				return nil, err
			}
			if out = append(out, docs...); len(out) > mostDocuments {
				return nil, &Error{File: p, Text: fmt.Sprintf("more than %d objects", mostDocuments)}
			}
		}
	}
	return out, nil
}

// below are the manifests in the folder and in those inside it. What begins with a dot is left out.
func below(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return &Error{File: path, Text: cause(err)}
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != dir
		if d.IsDir() {
			if hidden {
				return fs.SkipDir
			}
			return nil
		}
		if !hidden && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			// Nobody named it: a pipe would be waited for without end, and a device may have no end.
			if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
				return &Error{File: path, Text: "is no regular file"}
			}
			files = append(files, path)
		}
		if len(files) > mostFiles {
			return &Error{File: dir, Text: fmt.Sprintf("more than %d files: give a smaller folder, or single files", mostFiles)}
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = &Error{File: dir, Text: "no *.yaml, *.yml or *.json in this folder"}
	}
	return files, err
}

func load(file string, in io.Reader) ([]byte, error) {
	if file != Stdin {
		f, err := os.Open(file)
		if err != nil {
			return nil, &Error{File: file, Text: cause(err)}
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, &Error{File: file, Text: "is a folder"}
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	if err != nil {
		return nil, &Error{File: file, Text: cause(err)}
	}
	if len(data) > mostBytes {
		return nil, &Error{File: file, Text: fmt.Sprintf("larger than %d MiB", mostBytes>>20)}
	}
	return data, nil
}

// cause is the error without the operation and the path, which the caller names.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// Parse reads the documents of a file.
func Parse(file string, data []byte) ([]Document, error) {
	texts, err := split(file, data)
	if err != nil {
		return nil, err
	}
	var out []Document
	for _, t := range texts {
		docs, err := t.parse()
		if err != nil {
			return nil, err
		}
		if out = append(out, docs...); len(out) > mostDocuments {
			return nil, &Error{File: file, Text: fmt.Sprintf("more than %d objects", mostDocuments)}
		}
	}
	return out, nil
}

// split divides a file into its documents: values of JSON after one another, or YAML between lines of "---", as kubectl does.
func split(file string, data []byte) (out []*text, err error) {
	if start := bytes.TrimLeft(data, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		if out, ok := splitJSON(file, data); ok {
			return out, nil
		}
	}
	from, start := 0, 1 // of the document at hand
	end := func(to int) error {
		if doc := data[from:to]; len(bytes.TrimSpace(doc)) > 0 {
			out = append(out, &text{file: file, start: start, from: from, bytes: doc})
		}
		if len(out) > mostDocuments {
			return &Error{File: file, Text: fmt.Sprintf("more than %d documents", mostDocuments)}
		}
		return nil
	}
	at, line := 0, 1
	for l := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok && separates(rest) {
			if err := end(at); err != nil {
				return nil, err
			}
			from, start = at+len(l), line+1
			if rest = bytes.TrimSpace(rest); len(rest) > 0 && rest[0] != '#' { // the document begins on the line itself
				from, start = at, line
			}
		}
		at += len(l)
		line++
	}
	return out, end(len(data))
}

// separates says whether "---" and the rest of its line divide documents.
func separates(rest []byte) bool {
	return len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t'
}

// splitJSON is false for what is no sequence of JSON values: YAML may begin with a brace too.
func splitJSON(file string, data []byte) (out []*text, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		err := d.Decode(&raw)
		if err == io.EOF {
			return out, true
		}
		if err != nil || len(out) > mostDocuments {
			return nil, false
		}
		from := int(d.InputOffset()) - len(raw)
		out = append(out, &text{file: file, start: 1 + bytes.Count(data[:from], []byte("\n")), from: from, bytes: raw, json: true})
	}
}

// parse reads the object of a document, or those of a list.
func (t *text) parse() ([]Document, error) {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(t.bytes, &root); err != nil {
		return nil, t.wrong(err)
	}
	if root.Kind == 0 || len(root.Content) == 0 || root.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}
	t.root = root.Content[0]
	g := guard{left: mostValues}
	if err := g.walk(t.root, 0); err != nil {
		return nil, &Error{File: t.file, Line: t.start + err.line - 1, Text: err.text}
	}
	tree, err := toJSON(t.bytes)
	if err != nil {
		return nil, t.wrong(err)
	}
	object, ok := tree.(map[string]any)
	if !ok {
		if e := t.unrendered(); e != nil {
			return nil, e
		}
		return nil, &Error{File: t.file, Line: t.lineOf(t.root), Text: "is no object: every document has apiVersion, kind and metadata"}
	}
	return t.objects(object, t.root, "")
}

// objects is the object, or the items of a list of objects.
func (t *text) objects(object map[string]any, at *yamlv3.Node, below string) ([]Document, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	items, list := object["items"].([]any)
	switch {
	case kind == "" && t.noObject() != "":
		return nil, &Error{File: t.file, Line: t.lineOf(at), Text: t.noObject()}
	case kind == "" || version == "":
		return nil, &Error{File: t.file, Line: t.lineOf(at), Text: "has no " + cmp.Or(absent(kind, "kind"), absent(version, "apiVersion")) + ": every object has apiVersion and kind"}
	case !list || !strings.HasSuffix(kind, "List"):
		return []Document{{File: t.file, Line: t.lineOf(at), Object: object, text: t, below: below}}, nil
	}
	nodes := child(at, "items")
	var out []Document
	for i, item := range items {
		o, ok := item.(map[string]any)
		n := nodes
		if nodes != nil && i < len(nodes.Content) {
			n = nodes.Content[i]
		}
		if !ok {
			return nil, &Error{File: t.file, Line: t.lineOf(n), Text: fmt.Sprintf("item %d of the list is no object", i)}
		}
		docs, err := t.objects(o, n, fmt.Sprintf("%s/items/%d", below, i))
		if err != nil {
			return nil, err
		}
		if out = append(out, docs...); len(out) > mostDocuments {
			return nil, &Error{File: t.file, Text: fmt.Sprintf("more than %d objects", mostDocuments)}
		}
	}
	return out, nil
}

func absent(value, name string) string {
	if value == "" {
		return name
	}
	return ""
}

func (t *text) lineOf(n *yamlv3.Node) int {
	if n == nil {
		return t.start
	}
	return t.start + n.Line - 1
}

// wrong words an error of a YAML library, which counts lines from the start of the document.
func (t *text) wrong(err error) error {
	if e := t.unrendered(); e != nil {
		return e
	}
	words := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	words = strings.ReplaceAll(strings.TrimPrefix(words, "unmarshal errors:"), "\n", "")
	words = strings.TrimSpace(words)
	line := 0
	if n, _ := fmt.Sscanf(words, "line %d:", &line); n == 1 {
		_, words, _ = strings.Cut(words, ": ")
	}
	return &Error{File: t.file, Line: t.start + max(1, line) - 1, Text: words}
}

// toJSON is the document as kubectl reads it: one key twice in an object is an error.
func toJSON(doc []byte) (any, error) {
	b, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	var tree any
	err = utiljson.Unmarshal(b, &tree) // whole numbers are int64, as unstructured objects have them
	return tree, err
}

// guard counts the values of a document with its aliases expanded, before anything expands them.
type guard struct{ left int }

type guardError struct {
	line int
	text string
}

func (g *guard) walk(n *yamlv3.Node, depth int) *guardError {
	if g.left--; g.left < 0 {
		return &guardError{n.Line, fmt.Sprintf("more than %d values, with what its aliases stand for", mostValues)}
	}
	if depth > mostDepth {
		return &guardError{n.Line, fmt.Sprintf("objects and lists inside each other, more than %d deep", mostDepth)}
	}
	if n.Kind == yamlv3.AliasNode {
		return g.walk(n.Alias, depth+1)
	}
	for _, c := range n.Content {
		if err := g.walk(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// child is the value of the key in a mapping; nil where there is none.
func child(n *yamlv3.Node, key string) *yamlv3.Node {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
