package inspect

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/devices"
)

// Bundle is what was read from one.
type Bundle struct {
	Manifest *Manifest
	Facts    *facts.Facts
	Answers  map[string]json.RawMessage // by the path that was asked
	Report   []byte                     // Markdown; nil: there is none
}

// Read reads a bundle and checks that every byte in it is as it was written.
func Read(path string) (*Bundle, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: `berth evidence -o FILE` writes one", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if stat.IsDir() {
		return nil, fmt.Errorf("%s is a folder, not a bundle of `berth evidence`", path)
	}
	b, err := readFrom(bufio.NewReader(f), stat.Size())
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", path, err)
	}
	return b, nil
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

var errNoBundle = errors.New("this is no bundle of `berth evidence`")

// readFrom reads a bundle of the size.
func readFrom(r *bufio.Reader, size int64) (*Bundle, error) {
	if magic, _ := r.Peek(len(zstdMagic)); !bytes.Equal(magic, zstdMagic) {
		return nil, errNoBundle
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	limit := min(maxAll+maxManifest, max(maxSmall, size*maxRatio))
	all := &bounded{r: z, left: limit}
	u := unpacker{tar: tar.NewReader(all)}
	m, files, err := u.files()
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, all); err != nil { // the check at the end of the stream
		return nil, damage("the end", err)
	}
	return unpack(m, files)
}

// bounded is a reader that fails where more comes than may.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

type unpacker struct{ tar *tar.Reader }

// files reads the files, in the order and with the content that the manifest has.
func (u unpacker) files() (*Manifest, map[string][]byte, error) {
	text, err := u.next(manifestName, maxManifest)
	if err != nil {
		return nil, nil, err
	}
	m, err := decodeManifest(text)
	if err != nil {
		return nil, nil, err
	}
	hash, err := u.next(hashName, 256)
	if err != nil {
		return nil, nil, err
	}
	if string(hash) != sum(text)+"  "+manifestName+"\n" {
		return nil, nil, changed(manifestName)
	}
	files := make(map[string][]byte)
	for _, f := range m.Files {
		data, err := u.next(f.Name, f.Size)
		if err != nil {
			return nil, nil, err
		}
		if fileOf(f.Name, data) != f {
			return nil, nil, changed(f.Name)
		}
		files[f.Name] = data
	}
	if h, err := u.tar.Next(); err == nil {
		return nil, nil, fmt.Errorf("it has a file %q that its manifest does not list", h.Name)
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, damage("the end", err)
	}
	return &m, files, nil
}

// next reads the file that has to come next.
func (u unpacker) next(name string, most int64) ([]byte, error) {
	h, err := u.tar.Next()
	switch {
	case err != nil && name == manifestName && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errTooLarge):
		return nil, errNoBundle
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s is missing: the bundle is not complete; get another copy", name)
	case err != nil:
		return nil, damage(name, err)
	case h.Name != name && name == manifestName:
		return nil, errNoBundle
	case h.Name != name:
		return nil, fmt.Errorf("it has a file %q where %s should be: the bundle was changed", h.Name, name)
	case h.Typeflag != tar.TypeReg || h.Size > most:
		return nil, changed(name)
	}
	var b bytes.Buffer // grows with what is there, not with what is claimed
	b.Grow(int(min(h.Size, 1<<20)))
	if _, err := io.Copy(&b, u.tar); err != nil {
		return nil, damage(name, err)
	}
	return b.Bytes(), nil
}

// damage words an error of reading a file.
func damage(name string, err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("it ends in the middle of %s: the bundle is not complete; get another copy", name)
	}
	return fmt.Errorf("%s cannot be read (%w): the bundle was damaged; get another copy", name, err)
}

// unpack makes sense of the files.
func unpack(m *Manifest, files map[string][]byte) (*Bundle, error) {
	b := &Bundle{Manifest: m, Answers: make(map[string]json.RawMessage), Report: files[reportName]}
	b.Facts = &facts.Facts{At: m.Captured, Kubernetes: m.Kubernetes, Unseen: m.Unseen, Logs: make(map[string]string), Matches: devices.NewMatcher(), NewAllocator: devices.NewAllocator()}
	if m.Format < 3 {
		renameQueues(b.Facts, files)
	}
	left := newBudget()
	for _, k := range facts.Kinds {
		if err := readObjects(k, files[objectsFile(k)], &b.Facts.Objects, left); err != nil {
			return nil, err
		}
		delete(files, objectsFile(k)) // what was read need not be held twice
	}
	for name, data := range files {
		if k := besideIn(name, data); k != nil {
			if err := readObjects(k, data, &b.Facts.Objects, left); err != nil {
				return nil, err
			}
			continue
		}
		if key, ok := logKey(name); ok {
			b.Facts.Logs[key] = string(data)
		}
		if asked, ok := strings.CutPrefix(name, "answers/"); ok {
			if err := left.take(data); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			b.Answers[strings.TrimSuffix(asked, ".json")] = data
		}
	}
	return b, nil
}

// besideIn is the kind of the objects in a file of a kind that is not in the table; nil for other files.
func besideIn(name string, data []byte) *facts.KindInfo {
	resource, ok := strings.CutPrefix(strings.TrimSuffix(name, ".jsonl"), "objects/")
	if !ok {
		return nil
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	var head metav1.PartialObjectMetadata
	if json.Unmarshal(line, &head) != nil {
		return nil
	}
	gvk := head.GroupVersionKind()
	resource, group, _ := strings.Cut(resource, ".")
	if gvk.Kind == "" || gvk.Group != group || facts.KindOf(gvk.Group, gvk.Kind) != nil {
		return nil
	}
	return facts.FoundAs(gvk, resource, head.Namespace != "")
}

// renameQueues gives the queues of an older bundle the name of their kind now. readObject does the same for each.
func renameQueues(f *facts.Facts, files map[string][]byte) {
	now := facts.KindOf(v1alpha1.GroupVersion.Group, v1alpha1.QueueKind)
	was := "objects/" + queuesWere + ".jsonl"
	files[objectsFile(now)] = files[was]
	delete(files, was)
	f.Unseen = slices.Clone(f.Unseen)
	for i := range f.Unseen {
		if f.Unseen[i].Resource == queuesWere {
			f.Unseen[i].Resource = now.Name()
		}
	}
}

// readObjects adds the objects in the lines.
func readObjects(k *facts.KindInfo, data []byte, to *facts.Objects, left *budget) error {
	for n := 1; len(data) > 0; n++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		o := k.New()
		err := left.take(line)
		if err == nil {
			err = readObject(o, line)
		}
		if err != nil {
			return fmt.Errorf("%s, line %d: %.200s", objectsFile(k), n, err)
		}
		k.Add(to, o)
	}
	return nil
}

func readObject(o facts.Object, line []byte) error {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return json.Unmarshal(line, o)
	}
	want := u.GroupVersionKind()
	if err := u.UnmarshalJSON(line); err != nil {
		return err
	}
	if want.Kind == v1alpha1.QueueKind && u.GetKind() == "Queue" { // before format 3
		u.SetKind(v1alpha1.QueueKind)
	}
	if got := u.GroupVersionKind(); got.GroupKind() != want.GroupKind() {
		return fmt.Errorf("it is a %s, not a %s", got.Kind, want.Kind)
	}
	return nil
}
