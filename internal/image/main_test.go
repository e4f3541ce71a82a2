package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func files(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func pack(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(dir, arch), []byte("binary of "+arch), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "image.tar")
	if err := run("registry.example:5000/berth:v1", out, []string{"amd64=" + filepath.Join(dir, "amd64"), "arm64=" + filepath.Join(dir, "arm64")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An importer follows the digests from index.json down to the binary; every one of them is right.
func TestTheImageIsWhole(t *testing.T) {
	all := files(t, bytes.NewReader(pack(t)))
	read := func(d descriptor, into any) []byte {
		t.Helper()
		blob := all["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if digestOf(blob) != d.Digest || len(blob) != d.Size {
			t.Fatalf("%s is not there", d.Digest)
		}
		if into != nil {
			if err := json.Unmarshal(blob, into); err != nil {
				t.Fatal(err)
			}
		}
		return blob
	}
	type list struct{ Manifests []descriptor }
	var index, image list
	if err := json.Unmarshal(all["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v, %s", err, all["index.json"])
	}
	want := map[string]string{"io.containerd.image.name": "registry.example:5000/berth:v1", "org.opencontainers.image.ref.name": "v1"}
	if diff := cmp.Diff(want, index.Manifests[0].Annotations); diff != "" {
		t.Error(diff)
	}
	read(index.Manifests[0], &image)
	for i, arch := range []string{"amd64", "arm64"} {
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		read(image.Manifests[i], &manifest)
		var config struct {
			Architecture string
			Config       struct{ User string }
			Rootfs       struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		read(manifest.Config, &config)
		z, err := gzip.NewReader(bytes.NewReader(read(manifest.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != user || !cmp.Equal(config.Rootfs.DiffIDs, []string{digestOf(plain)}) || image.Manifests[i].Platform["architecture"] != arch {
			t.Errorf("%s: %+v", arch, config)
		}
		if diff := cmp.Diff(map[string][]byte{program: []byte("binary of " + arch)}, files(t, bytes.NewReader(plain))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheImageIsTheSameTwice(t *testing.T) {
	if !bytes.Equal(pack(t), pack(t)) {
		t.Error("two images of the same binary differ")
	}
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{{"", []string{"amd64=x"}}, {"a:b", nil}, {"a:b", []string{"amd64"}}, {"a:b", []string{"amd64=/nowhere"}}} {
		if err := run(c.name, filepath.Join(t.TempDir(), "x"), c.args); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
