package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Op is one operation of a JSON patch on an object.
type Op struct {
	Op    string `json:"op"` // add, replace or remove
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// LineOf is the line of the field, or of the nearest one around it that is written.
func (d *Document) LineOf(pointer string) int {
	if d.text == nil || d.text.root == nil {
		return d.Line
	}
	line, at := d.Line, d.text.root
	for _, key := range keysOf(d.below + pointer) {
		k, v := step(at, key)
		if v == nil {
			break
		}
		at = v
		line = d.text.lineOf(v)
		if k != nil {
			line = d.text.lineOf(k)
		}
	}
	return line
}

// step is the value below a node, and its key where it is in an object.
func step(n *yamlv3.Node, key string) (k, v *yamlv3.Node) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yamlv3.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
	}
	return nil, nil
}

func keysOf(pointer string) []string {
	if pointer == "" {
		return nil
	}
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range keys {
		keys[i] = strings.ReplaceAll(strings.ReplaceAll(keys[i], "~1", "/"), "~0", "~")
	}
	return keys
}

// Change is what is to be done to one document.
type Change struct {
	Document *Document
	Ops      []Op
}

// Patched is the file of the documents with the changes made: comments, order and everything that is not changed stay as
// they are, byte for byte. exact is false where that could not be done and a document was written anew, which keeps
// comments and order and may change indentation. All changes are of documents of one file.
func Patched(data []byte, changes []Change) (out []byte, exact bool, err error) {
	byText := make(map[*text][]Change)
	var texts []*text
	for _, c := range changes {
		t := c.Document.text
		if byText[t] == nil {
			texts = append(texts, t)
		}
		byText[t] = append(byText[t], c)
	}
	slices.SortFunc(texts, func(a, b *text) int { return b.from - a.from }) // from the end, so that offsets hold
	out, exact = data, true
	for _, t := range texts {
		doc, same, err := t.patched(byText[t])
		if err != nil {
			return nil, false, err
		}
		exact = exact && same
		out = slices.Concat(out[:t.from], doc, out[t.from+len(t.bytes):])
	}
	return out, exact, nil
}

// patched is the document after the changes. Fields are edited in the text as a person would; the result is read again
// and compared with what the patch asks for, and where they differ the document is written anew from its nodes.
func (t *text) patched(changes []Change) (doc []byte, exact bool, err error) {
	var ops []Op
	for _, c := range changes {
		for _, op := range c.Ops {
			op.Path = c.Document.below + op.Path
			ops = append(ops, op)
		}
	}
	tree, err := toJSON(t.bytes)
	if err != nil {
		return nil, false, err
	}
	want, ops, err := patchTree(tree, ops)
	if err != nil {
		return nil, false, err
	}
	edited := t.bytes
	for _, op := range ops {
		if edited = editText(edited, op); edited == nil {
			break
		}
	}
	if edited != nil && t.reads(edited, want) {
		return edited, true, nil
	}
	if t.json {
		b, err := json.MarshalIndent(want, "", "  ")
		return b, false, err
	}
	b, err := t.anew(ops)
	if err != nil {
		return nil, false, err
	}
	if !t.reads(b, want) {
		return nil, false, fmt.Errorf("%s:%d: the change cannot be written", t.file, t.start)
	}
	return b, false, nil
}

// reads says whether the text is the tree.
func (t *text) reads(doc []byte, want any) bool {
	got, err := toJSON(doc)
	return err == nil && reflect.DeepEqual(got, want)
}

// patchTree does the operations, and makes what is missing on the way to their values. It returns them as they were done:
// replacing what is not there adds it, and values are as JSON has them.
func patchTree(tree any, ops []Op) (out any, done []Op, err error) {
	doc, err := json.Marshal(tree)
	if err != nil {
		return nil, nil, err
	}
	for _, op := range ops {
		if op.Value, err = plain(op.Value); err != nil {
			return nil, nil, err
		}
		for _, o := range whole(tree, op) {
			b, err := json.Marshal([]Op{o})
			if err != nil {
				return nil, nil, err
			}
			p, err := jsonpatch.DecodePatch(b)
			if err != nil {
				return nil, nil, err
			}
			if doc, err = p.Apply(doc); err != nil {
				return nil, nil, fmt.Errorf("%s %s: %w", o.Op, o.Path, err)
			}
			done = append(done, o)
		}
		if tree, err = toJSON(doc); err != nil {
			return nil, nil, err
		}
	}
	return tree, done, nil
}

// whole is the operation, at the nearest object or list that is there: what is missing between is made with the value.
func whole(tree any, op Op) []Op {
	if op.Op == "remove" {
		return []Op{op}
	}
	keys := keysOf(op.Path)
	at := tree
	for i, key := range keys {
		var next any
		there := false
		switch at := at.(type) {
		case map[string]any:
			next, there = at[key]
			there = there && next != nil
		case []any:
			if key == "-" {
				return []Op{op}
			}
			if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(at) {
				next, there = at[n], true
			}
		}
		if there {
			at = next
			continue
		}
		value := op.Value
		for j := len(keys) - 1; j > i; j-- {
			if keys[j] == "-" || keys[j] == "0" {
				value = []any{value}
				continue
			}
			value = map[string]any{keys[j]: value}
		}
		return []Op{{Op: "add", Path: pointer(keys[:i+1]), Value: value}}
	}
	op.Op = "replace"
	return []Op{op}
}

func pointer(keys []string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(k, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// plain is the value as JSON has it.
func plain(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return toJSON(b)
}

// editText does one operation in the text of a document; nil where it would take more than lines of block style.
func editText(doc []byte, op Op) []byte {
	var root yamlv3.Node
	if yamlv3.Unmarshal(doc, &root) != nil || len(root.Content) == 0 {
		return nil
	}
	keys := keysOf(op.Path)
	at := root.Content[0]
	for _, key := range keys[:len(keys)-1] {
		if _, at = step(at, key); at == nil || at.Kind == yamlv3.AliasNode {
			return nil
		}
	}
	last := keys[len(keys)-1]
	k, v := step(at, last)
	lines := bytes.SplitAfter(doc, []byte("\n"))
	switch {
	case op.Op == "replace" && v != nil:
		return replaceScalar(lines, v, op.Value)
	case at.Style&yamlv3.FlowStyle != 0 || len(at.Content) == 0:
		return nil
	case op.Op == "remove" && v != nil:
		first := v.Line
		if k != nil {
			first = k.Line
		}
		if k == nil && at.Content[0] == v && len(at.Content) == 1 {
			return nil
		}
		if k != nil && at.Content[0] == k && !onlyIndent(lines[first-1], k.Column) {
			return nil // it shares its line with a dash
		}
		end := endOf(&root, v, lines)
		return bytes.Join(slices.Concat(lines[:first-1], lines[end:]), nil)
	case op.Op == "add" && v == nil:
		return insert(lines, &root, at, last, op.Value)
	}
	return nil
}

func onlyIndent(line []byte, column int) bool {
	return len(line) >= column-1 && len(bytes.TrimLeft(line[:column-1], " ")) == 0
}

// replaceScalar puts the value in the place of one that is written on one line.
func replaceScalar(lines [][]byte, v *yamlv3.Node, value any) []byte {
	switch value.(type) {
	case map[string]any, []any:
		return nil
	}
	if v.Kind != yamlv3.ScalarNode || v.Anchor != "" || v.Style&(yamlv3.LiteralStyle|yamlv3.FoldedStyle|yamlv3.TaggedStyle) != 0 {
		return nil
	}
	line := string(lines[v.Line-1])
	from := byteAt(line, v.Column)
	if from < 0 {
		return nil
	}
	length := len(v.Value) // of a plain scalar on one line
	if v.Style&(yamlv3.DoubleQuotedStyle|yamlv3.SingleQuotedStyle) != 0 {
		if length = quotedLength(line[from:]); length < 0 {
			return nil
		}
	} else if !strings.HasPrefix(line[from:], v.Value) {
		return nil
	}
	text, ok := scalar(value)
	if !ok {
		return nil
	}
	out := slices.Clone(lines)
	out[v.Line-1] = []byte(line[:from] + text + line[from+length:])
	return bytes.Join(out, nil)
}

// byteAt is the byte of a column, which counts characters from 1.
func byteAt(line string, column int) int {
	n := 1
	for i := range line {
		if n == column {
			return i
		}
		n++
	}
	return -1
}

// quotedLength is how long the quoted scalar at the start of the text is, with its quotes; -1: it goes on beyond the line.
func quotedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] == s[0]:
			if s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'' {
				i++
				continue
			}
			return i + 1
		}
	}
	return -1
}

// scalar is the value as YAML that stands on one line.
func scalar(value any) (string, bool) {
	b, err := yamlv3.Marshal(value)
	text := strings.TrimSuffix(string(b), "\n")
	return text, err == nil && !strings.Contains(text, "\n")
}

// insert adds a key to an object, or an item to the end of a list, in block style.
func insert(lines [][]byte, root, at *yamlv3.Node, key string, value any) []byte {
	column := at.Content[0].Column
	var node any = map[string]any{key: value}
	if at.Kind == yamlv3.SequenceNode {
		if key != "-" && key != strconv.Itoa(len(at.Content)) {
			return nil
		}
		node, column = []any{value}, at.Column
	}
	var b bytes.Buffer
	e := yamlv3.NewEncoder(&b)
	e.SetIndent(2)
	if e.Encode(node) != nil {
		return nil
	}
	indent := strings.Repeat(" ", column-1)
	text := indent + strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n", "\n"+indent) + "\n"
	end := endOf(root, at, lines)
	before := slices.Clone(lines[:end])
	if n := len(before); n > 0 && !bytes.HasSuffix(before[n-1], []byte("\n")) {
		before[n-1] = append(slices.Clone(before[n-1]), '\n')
	}
	return bytes.Join(slices.Concat(before, [][]byte{[]byte(text)}, lines[end:]), nil)
}

// endOf is the last line of the node, comments and blank lines after it aside: those before the next node in the document.
func endOf(root, n *yamlv3.Node, lines [][]byte) int {
	next, found := 0, false
	var walk func(at *yamlv3.Node)
	walk = func(at *yamlv3.Node) {
		if at == n {
			found = true
			return
		}
		if found && next == 0 && at.Line > 0 && len(at.Content) == 0 {
			next = at.Line
		}
		for _, c := range at.Content {
			walk(c)
		}
	}
	walk(root)
	end := len(lines)
	if next > 0 {
		end = next - 1
	}
	for end > 0 {
		line := bytes.TrimSpace(lines[end-1])
		if len(line) > 0 && line[0] != '#' {
			break
		}
		end--
	}
	return end
}

// anew writes the document from its nodes, which keeps comments and order.
func (t *text) anew(ops []Op) ([]byte, error) {
	var root yamlv3.Node
	if err := yamlv3.Unmarshal(t.bytes, &root); err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := editNode(root.Content[0], keysOf(op.Path), op); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	e := yamlv3.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func editNode(at *yamlv3.Node, keys []string, op Op) error {
	for _, key := range keys[:len(keys)-1] {
		if _, at = step(at, key); at == nil {
			return fmt.Errorf("%s: nothing is at %s", op.Path, key)
		}
	}
	var value yamlv3.Node
	if err := value.Encode(op.Value); err != nil {
		return err
	}
	last := keys[len(keys)-1]
	if at.Kind == yamlv3.SequenceNode {
		i, err := strconv.Atoi(last)
		switch {
		case last == "-":
			at.Content = append(at.Content, &value)
		case err != nil || i < 0 || i >= len(at.Content):
			return fmt.Errorf("%s: the list has %d items", op.Path, len(at.Content))
		case op.Op == "remove":
			at.Content = slices.Delete(at.Content, i, i+1)
		case op.Op == "add":
			at.Content = slices.Insert(at.Content, i, &value)
		default:
			*at.Content[i] = value
		}
		return nil
	}
	for i := 0; i+1 < len(at.Content); i += 2 {
		if at.Content[i].Value == last {
			if op.Op == "remove" {
				at.Content = slices.Delete(at.Content, i, i+2)
				return nil
			}
			value.LineComment, value.HeadComment, value.FootComment = at.Content[i+1].LineComment, at.Content[i+1].HeadComment, at.Content[i+1].FootComment
			*at.Content[i+1] = value
			return nil
		}
	}
	if len(at.Content) == 0 {
		at.Style &^= yamlv3.FlowStyle
	}
	at.Kind, at.Tag = yamlv3.MappingNode, "!!map"
	at.Content = append(at.Content, &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: "!!str", Value: last}, &value)
	return nil
}

// Apply is the object of the document after the operations.
func (d *Document) Apply(ops []Op) (map[string]any, error) {
	out, _, err := patchTree(any(d.Object), ops)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// Write replaces the file by the data, whole or not at all: after a crash, too, it is the old one or the new one. A
// symbolic link stays one.
func Write(file string, data []byte) error {
	if whole, err := filepath.EvalSymlinks(file); err == nil {
		file = whole
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".berth-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where it was renamed
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// Print is the document of the object with the operations done, as text.
func (d *Document) Print(ops []Op) (string, error) {
	doc, _, err := d.text.patched([]Change{{Document: d, Ops: ops}})
	if err == nil && !bytes.HasSuffix(doc, []byte("\n")) {
		doc = append(slices.Clone(doc), '\n')
	}
	return string(doc), err
}
