package inspect

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-dev/berth/diagnose/facts"
)

// BundleOptions say what goes into a bundle beside the facts.
type BundleOptions struct {
	Berth     string // version
	Cluster   string // as the person calls it; left out where names are redacted
	Kubectl   string // what commands for the cluster begin with, on any machine; left out with the name
	Namespace string // the current one
	// Answers are what the scheduler's answers said, by the path that was asked.
	Answers map[string]json.RawMessage
	// Report makes report.md of the facts as they will be read from the bundle; nil: there is none.
	Report func(*Bundle) ([]byte, error)
	// Redact gives names new names; nil leaves them.
	Redact *Redaction
}

// Write writes a bundle. What might be secret is left out or masked first; so the facts that are read back are not
// quite those that were given, but the checks see the same in them. The same facts make the same bytes.
func Write(w io.Writer, f *facts.Facts, o BundleOptions) (*Manifest, error) {
	p := packer{BundleOptions: o, clean: newCleaner(f, o.Redact != nil), files: make(map[string][]byte)}
	m, err := p.pack(f)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		m.Files = append(m.Files, fileOf(name, p.files[name]))
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("the cluster is too large for a bundle: %w", err)
	}
	return m, p.write(w, m)
}

// packer collects the files.
type packer struct {
	BundleOptions
	clean *cleaner
	files map[string][]byte
}

func (p *packer) pack(f *facts.Facts) (*Manifest, error) {
	m := &Manifest{Format: Format, Captured: f.At.UTC().Truncate(time.Second), Kubernetes: f.Kubernetes, Berth: p.Berth, Cluster: p.Cluster, Kubectl: p.Kubectl, Namespace: p.Namespace, Redacted: p.Redact != nil, Counts: make(map[string]int)}
	for _, u := range f.Unseen {
		u.Reason = p.text(u.Reason)
		u.Namespace, u.Except = p.rename(u.Namespace), p.rename(u.Except)
		m.Unseen = append(m.Unseen, u)
	}
	if p.Redact != nil {
		m.Cluster, m.Kubectl, m.Namespace = "", "", p.rename(p.Namespace)
	}
	for _, k := range f.Objects.Kinds() {
		if err := p.objects(k, f, m); err != nil {
			return nil, err
		}
	}
	for key, text := range f.Logs {
		if name, ok := logFile(p.rename(key)); ok {
			p.files[name] = []byte(p.text(text))
		}
	}
	for asked, answer := range p.Answers {
		if err := p.answer(asked, answer); err != nil {
			return nil, err
		}
	}
	return m, p.report(m)
}

// objects writes those of one kind: a line each, by name.
func (p *packer) objects(k *facts.KindInfo, f *facts.Facts, m *Manifest) error {
	all := k.List(&f.Objects)
	if len(all) == 0 {
		return nil
	}
	type line struct{ namespace, name, text string }
	lines := make([]line, len(all))
	for i, o := range all {
		tree, err := treeOf(k, o)
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", k.Name(), o.GetNamespace(), o.GetName(), err)
		}
		p.clean.object(tree)
		if p.Redact != nil {
			p.Redact.tree("", tree)
		}
		text, err := canonical(tree)
		if err != nil {
			return err
		}
		lines[i] = line{p.rename(o.GetNamespace()), p.rename(o.GetName()), string(text)}
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.text, b.text))
	})
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	p.files[objectsFile(k)] = b.Bytes()
	m.Counts[k.Name()] = len(all)
	return nil
}

// treeOf is the object as JSON reads, of its own: nothing in it is shared. It carries its kind.
func treeOf(k *facts.KindInfo, o facts.Object) (map[string]any, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	tree, err := decode(b)
	if err != nil {
		return nil, err
	}
	m, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it is no object")
	}
	if !k.Foreign {
		m["apiVersion"], m["kind"] = k.GroupVersion().String(), k.Kind
	}
	return m, nil
}

// decode reads JSON and keeps numbers as they are written.
func decode(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func (p *packer) answer(asked string, answer json.RawMessage) error {
	tree, err := decode(answer)
	if err != nil {
		return fmt.Errorf("answer to %s: %w", asked, err)
	}
	tree = p.clean.tree("", tree)
	if p.Redact != nil {
		tree = p.Redact.tree("", tree)
	}
	name := path.Join("answers", p.rename(asked)+".json")
	p.files[name], err = canonical(tree)
	return err
}

// report asks for the report on what is in the files by now.
func (p *packer) report(m *Manifest) error {
	if p.Report == nil {
		return nil
	}
	b, err := unpack(m, maps.Clone(p.files))
	if err != nil {
		return fmt.Errorf("read back what was gathered: %w", err)
	}
	text, err := p.Report(b)
	p.files[reportName] = text
	return err
}

func (p *packer) text(s string) string { return p.rename(p.clean.text.Text(s)) }

func (p *packer) rename(s string) string {
	if p.Redact == nil {
		return s
	}
	return p.Redact.text(s)
}

// objectsFile is where the objects of a kind are.
func objectsFile(k *facts.KindInfo) string { return "objects/" + k.Name() + ".jsonl" }

// logFile is where a log is, by its key in Facts.Logs; ok is false for keys that are none.
func logFile(key string) (name string, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) == 4 && parts[3] == "previous" {
		parts = []string{parts[0], parts[1], parts[2] + ".previous"} // no container has a dot in its name
	}
	if len(parts) != 3 || slices.ContainsFunc(parts, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return "", false
	}
	return "logs/" + strings.Join(parts, "/") + ".log", true
}

// logKey is the way back.
func logKey(name string) (key string, ok bool) {
	name, ok = strings.CutPrefix(name, "logs/")
	name, ended := strings.CutSuffix(name, ".log")
	if before, previous := strings.CutSuffix(name, ".previous"); previous {
		name = before + "/previous"
	}
	return name, ok && ended
}

// write writes the files as one.
func (p *packer) write(w io.Writer, m *Manifest) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(window))
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	add := func(name string, data []byte) {
		if err == nil {
			err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: m.Captured})
		}
		if err == nil {
			_, err = t.Write(data)
		}
	}
	manifest := m.encode()
	add(manifestName, manifest)
	add(hashName, []byte(sum(manifest)+"  "+manifestName+"\n"))
	for _, f := range m.Files {
		add(f.Name, p.files[f.Name])
	}
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// window is how far back the compression looks, and what reading needs of memory.
const window = 8 << 20
