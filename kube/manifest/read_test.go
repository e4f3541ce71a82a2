package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "# only a comment\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n--- # next\n\nkind: Pod\napiVersion: v1\nmetadata:\n  name: b\n---\n")
	write("b/list.yml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: c}\n- {apiVersion: v1, kind: PodList, items: [{apiVersion: v1, kind: Pod, metadata: {name: d}}]}\n")
	write("c.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"e"}}`+"\n"+`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"f","generation":3}}`)
	write("d.yaml", "apiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: g\r\n---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata:\r\n  name: h\r\n")
	write(".hidden/x.yaml", "not: [valid")
	write("README.md", "not: [valid")
	docs, err := Read([]string{dir, Stdin}, strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: &m {name: i}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range docs {
		got = append(got, fmt.Sprintf("%s:%d %v", strings.TrimPrefix(d.File, dir+"/"), d.Line, d.Object["metadata"].(map[string]any)["name"]))
	}
	want := []string{"a.yaml:3 a", "a.yaml:8 b", "b/list.yml:4 c", "b/list.yml:7 d", "c.json:1 e", "c.json:2 f", "d.yaml:1 g", "d.yaml:6 h", "-:1 i"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHostile gives what would exhaust a careless reader: each is refused in one line that names the place.
func TestHostile(t *testing.T) {
	bomb := "apiVersion: v1\nkind: Pod\na: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases":       {bomb, "x.yaml:3: more than 500000 values, with what its aliases stand for"},
		"cycle":         {"apiVersion: v1\nkind: Pod\na: &a\n  b: *a\n", "deep"},
		"deep yaml":     {"apiVersion: v1\nkind: Pod\na: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "x.yaml:3: objects and lists inside each other, more than 100 deep"},
		"deep json":     {`{"apiVersion":"v1","kind":"Pod","a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "x.yaml:1: objects and lists inside each other, more than 100 deep"},
		"documents":     {strings.Repeat("apiVersion: v1\nkind: Pod\n---\n", 5001), "more than 5000"},
		"items":         {"apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- {apiVersion: v1, kind: Pod}\n", 5001), "more than 5000"},
		"no object":     {"just text", "x.yaml:1: is no object"},
		"no kind":       {"a: b", "x.yaml:1: has no kind"},
		"no version":    {"\nkind: Pod", "x.yaml:2: has no apiVersion"},
		"broken":        {"---\napiVersion: v1\nkind: [Pod\n", "x.yaml:"},
		"twice":         {"apiVersion: v1\nkind: Pod\nkind: Job\n", `x.yaml:3: key "kind" already set`},
		"item":          {"apiVersion: v1\nkind: List\nitems: [1]\n", "x.yaml:3: item 0 of the list is no object"},
		"unknown alias": {"apiVersion: v1\nkind: *x\n", "unknown anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("x.yaml", []byte(c.text))
			var wrong *Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Read([]string{Stdin}, bytes.NewReader(make([]byte, mostBytes+2))); err == nil || !strings.Contains(err.Error(), "standard input: larger than 16 MiB") {
		t.Error(err)
	}
	if _, err := Read([]string{"/nowhere/x.yaml"}, nil); err == nil || err.Error() != "/nowhere/x.yaml: no such file or directory" {
		t.Error(err)
	}
}

// TestTemplates has what is still to be rendered named as that, with the way to do it, and nothing else.
func TestTemplates(t *testing.T) {
	const helm, jinja, some = "render its chart first: helm template CHART | berth check -f -", "render it with Jinja first: jinja2 x.yaml VALUES | berth check -f -", "render it first"
	for name, c := range map[string]struct {
		file, text, want string
		line             int
	}{
		"helm value":           {"x.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n", helm, 4},
		"helm after text":      {"x.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-x\n", helm, 4},
		"helm within text":     {"x.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x-{{ .Release.Name }}: a\n", helm, 4},
		"helm condition":       {"x.yaml", "# {{ a comment }}\n{{- if .Values.on }}\napiVersion: v1\nkind: Pod\n{{- end }}\n", helm, 2},
		"helm include":         {"x.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    {{- include \"a.labels\" . | nindent 4 }}\n", helm, 5},
		"helm number":          {"x.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  n: {{ .Values.n }}\n", helm, 4},
		"second document":      {"x.yaml", "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nspec:\n  n: {{ $.Values.n }}\n", helm, 7},
		"helm alone":           {"x.yaml", "{{ include \"a.b\" . }}\n", helm, 1},
		"jinja":                {"x.yaml", "apiVersion: v1\nkind: Pod\n{% for i in range(3) %}\nmetadata: {{ i }}\n{% endfor %}\n", jinja, 3},
		"some renderer":        {"x.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ name }}\n", some, 4},
		"quoted, broken else":  {"x.yaml", "apiVersion: v1\nkind: [Workflow\nargs: [\"{{inputs.parameters.a}}\"]\n", "did not find expected", 1},
		"kustomization":        {"dir/kustomization.yaml", "resources: [a.yaml]\n", "is a kustomization: kubectl kustomize dir | berth check -f -", 1},
		"values of a chart":    {"dir/values.yaml", "replicas: 3\n", "is of a chart of Helm: helm template dir | berth check -f -", 1},
		"a chart":              {"dir/Chart.yaml", "apiVersion: v2\nname: x\n", "is of a chart of Helm: helm template dir | berth check -f -", 1},
		"an object of a chart": {"dir/values.yaml", "apiVersion: v1\nkind: Pod\nargs: '{{x}}'\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.file, []byte(c.text))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var wrong *Error
			if !errors.As(err, &wrong) || !strings.Contains(wrong.Text, c.want) || wrong.Line != c.line {
				t.Errorf("got %v, want line %d, %q", err, c.line, c.want)
			}
		})
	}
}

const job = `# why this exists
apiVersion: batch/v1
kind: Job
metadata:
  name: train   # the name
spec:
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      nodeSelector:
        gpu: "H100"    # which
      containers:
      - name: train
        image: 'x'
        resources:
          limits:
            nvidia.com/gpu: 8
      # about volumes
      volumes:
        - name: a
          emptyDir: {}

# the end
`

func TestPatched(t *testing.T) {
	for _, c := range []struct {
		name      string
		op        Op
		was, want string // of lines
		anew      bool
	}{
		{"number", Op{"replace", "/spec/parallelism", 4}, "parallelism: 2", "parallelism: 4", false},
		{"quoted", Op{"replace", "/spec/template/spec/nodeSelector/gpu", "H200"}, `gpu: "H100"    # which`, `gpu: H200    # which`, false},
		{"single", Op{"replace", "/spec/template/spec/containers/0/image", "y:1"}, "image: 'x'", "image: y:1", false},
		{"add key", Op{"add", "/spec/template/spec/schedulerName", "berth"}, "          emptyDir: {}\n", "          emptyDir: {}\n      schedulerName: berth\n", false},
		{"add list", Op{"add", "/spec/template/spec/tolerations/-", map[string]string{"key": "a", "operator": "Exists"}}, "          emptyDir: {}\n", "          emptyDir: {}\n      tolerations:\n        - key: a\n          operator: Exists\n", false},
		{"add item", Op{"add", "/spec/template/spec/volumes/-", map[string]any{"name": "b"}}, "          emptyDir: {}\n", "          emptyDir: {}\n        - name: b\n", false},
		{"add in map", Op{"add", "/spec/template/spec/nodeSelector/a~1b", "true"}, "# which\n", "# which\n        a/b: \"true\"\n", false},
		{"add annotation", Op{"add", "/spec/template/metadata/annotations/x", "1"}, "          emptyDir: {}\n", "          emptyDir: {}\n    metadata:\n      annotations:\n        x: \"1\"\n", false},
		{"remove", Op{"remove", "/spec/parallelism", nil}, "  parallelism: 2\n", "", false},
		{"remove map", Op{"remove", "/spec/template/spec/nodeSelector", nil}, "      nodeSelector:\n        gpu: \"H100\"    # which\n", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n---\n" + job + "---\napiVersion: v1\nkind: Service\n"
			docs, err := Parse("f", []byte(file))
			if err != nil || len(docs) != 3 {
				t.Fatal(err, len(docs))
			}
			got, exact, err := Patched([]byte(file), []Change{{&docs[1], []Op{c.op}}})
			if err != nil || exact == c.anew {
				t.Fatal(err, exact)
			}
			if diff := cmp.Diff(strings.Replace(file, c.was, c.want, 1), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPatchedAnew changes what is not written in lines: comments and order stay, and indentation may not.
func TestPatchedAnew(t *testing.T) {
	file := "# c\napiVersion: v1\nkind: Pod\nmetadata: {name: n} # d\nspec: {nodeSelector: {a: b}}\n"
	docs, err := Parse("f", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	got, exact, err := Patched([]byte(file), []Change{{&docs[0], []Op{{"add", "/spec/nodeSelector/c", "d"}, {"replace", "/metadata/name", "m"}}}})
	want := "# c\napiVersion: v1\nkind: Pod\nmetadata: {name: m} # d\nspec: {nodeSelector: {a: b, c: d}}\n"
	if err != nil || exact || string(got) != want {
		t.Errorf("%v %v\n%s", err, exact, got)
	}
	if line := docs[0].LineOf("/spec/nodeSelector/nothing"); line != 5 {
		t.Error(line)
	}
}

// FuzzParse reads anything: it ends with objects or an error, and a change that is written is what was asked for.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{job, "", "---\n---", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}`, "a: &a {b: *a}", "apiVersion: v1\nkind: Pod\nx: |\n  text\n\n  more\ny: >-\n z\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := Parse("f", data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		for i := range docs {
			ops := []Op{{Op: "add", Path: "/metadata/annotations/fuzz", Value: "1: #"}}
			want, err := docs[i].Apply(ops)
			if err != nil {
				continue
			}
			out, _, err := Patched(data, []Change{{&docs[i], ops}})
			if err != nil {
				continue
			}
			again, err := Parse("f", out)
			if err != nil || len(again) != len(docs) {
				t.Fatalf("%v: %d documents, were %d:\n%s", err, len(again), len(docs), out)
			}
			if diff := cmp.Diff(want, again[i].Object); diff != "" {
				t.Errorf("%s\n%s", diff, out)
			}
		}
	})
}
