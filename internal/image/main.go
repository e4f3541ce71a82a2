// Command image packs a binary as an OCI image, without Docker and without a registry: a layout on disk (or a tar of it,
// which containerd, podman and docker import) with one layer that holds the binary and nothing else. No shell, no users but
// the one that it runs as, the same bytes from the same binary. `make image` calls it.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	name := flag.String("name", "", "name of the image, such as berth:v1")
	out := flag.String("o", "", "the tar to write")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: image -name NAME:TAG -o FILE.tar ARCH=BINARY...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*name, *out, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(name, out string, binaries []string) error {
	if name == "" || out == "" || len(binaries) == 0 {
		return errors.New("give -name, -o and at least one ARCH=BINARY")
	}
	var l layout
	for _, b := range binaries {
		arch, file, ok := strings.Cut(b, "=")
		if !ok {
			return fmt.Errorf("%q: write ARCH=BINARY, such as amd64=dist/linux-amd64/kubectl-berth", b)
		}
		binary, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := l.add(arch, binary); err != nil {
			return err
		}
	}
	text, err := l.tar(name)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

const (
	program = "kubectl-berth"
	// user is nobody in particular; kube/install has the same.
	user = "65532:65532"

	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeIndex    = "application/vnd.oci.image.index.v1+json"
)

// descriptor is how an OCI document refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// layout is an image for several architectures: its blobs by digest, and a manifest for each.
type layout struct {
	blobs     map[string][]byte
	manifests []descriptor
}

// keep stores a blob and returns how it is referred to.
func (l *layout) keep(mediaType string, blob []byte) descriptor {
	if l.blobs == nil {
		l.blobs = make(map[string][]byte)
	}
	digest := digestOf(blob)
	l.blobs[digest] = blob
	return descriptor{MediaType: mediaType, Digest: digest, Size: len(blob)}
}

func digestOf(blob []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(blob)) }

// add makes the image of one architecture.
func (l *layout) add(arch string, binary []byte) error {
	plain, err := archive([]entry{{program, 0o755, binary}})
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(plain); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	layer := l.keep(typeLayer, packed.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"User": user, "Entrypoint": []string{"/" + program}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digestOf(plain)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": l.keep(typeConfig, config), "layers": []descriptor{layer},
	})
	if err != nil {
		return err
	}
	d := l.keep(typeManifest, manifest)
	d.Platform = map[string]string{"architecture": arch, "os": "linux"}
	l.manifests = append(l.manifests, d)
	return nil
}

// tar is the layout with an index that gives the image its name.
func (l *layout) tar(name string) ([]byte, error) {
	image, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": l.manifests})
	if err != nil {
		return nil, err
	}
	d := l.keep(typeIndex, image)
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	d.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{d}})
	if err != nil {
		return nil, err
	}
	list := []entry{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}}
	for digest, blob := range l.blobs {
		list = append(list, entry{"blobs/" + strings.Replace(digest, ":", "/", 1), 0o644, blob})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return archive(list)
}

type entry struct {
	name string
	mode int64
	data []byte
}

// archive is a tar without times and owners.
func archive(list []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, bytes.NewReader(e.data)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
