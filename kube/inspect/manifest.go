package inspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Format is the version of bundles that is written. docs/evidence.md describes it.
//
//	1  2026-11-15  first
//	2  2026-11-16  kubectl in the manifest
//	3  2026-11-16  queues are BerthQueues: berthqueues.berth.dev, which was queues.berth.dev
const Format = 3

// queuesWere is the resource of queues in bundles before format 3.
const queuesWere = "queues.berth.dev"

// Manifest says what is in a bundle. It is the first file in it.
type Manifest struct {
	Format     int            `json:"format"`
	Captured   time.Time      `json:"captured"`
	Kubernetes string         `json:"kubernetes,omitempty"`
	Berth      string         `json:"berth,omitempty"`
	Cluster    string         `json:"cluster,omitempty"`
	Kubectl    string         `json:"kubectl,omitempty"`   // what commands for the cluster begin with
	Namespace  string         `json:"namespace,omitempty"` // that was the current one
	Redacted   bool           `json:"redacted"`
	Counts     map[string]int `json:"counts"` // of objects, by resource
	Unseen     []facts.Unseen `json:"unseen,omitempty"`
	Files      []File         `json:"files"` // all others, in their order
}

// File is one file of a bundle.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func fileOf(name string, data []byte) File {
	return File{Name: name, Size: int64(len(data)), SHA256: sum(data)}
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// Hash is the hash of the manifest, and so of everything in the bundle: who knows it can tell any other bundle apart.
func (m *Manifest) Hash() string { return "sha256:" + sum(m.encode()) }

// encode is the manifest as it is written: the same bytes for the same values.
func (m *Manifest) encode() []byte {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic(err) // no value of these types fails
	}
	return append(b, '\n')
}

const (
	manifestName = "manifest.json"
	hashName     = "manifest.sha256" // as sha256sum writes it
	reportName   = "report.md"
)

// decodeManifest reads a manifest, and nothing but one that Berth wrote.
func decodeManifest(data []byte) (m Manifest, err error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Format < 1 {
		return m, fmt.Errorf("%s is no manifest of a bundle", manifestName)
	}
	if head.Format > Format {
		return m, fmt.Errorf("it has format %d, and this Berth reads up to %d: use a newer Berth", head.Format, Format)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	if !bytes.Equal(m.encode(), data) {
		return m, changed(manifestName)
	}
	return m, m.check()
}

// check holds the list of files to its bounds.
func (m *Manifest) check() error {
	if len(m.Files) > maxFiles {
		return fmt.Errorf("it claims %d files, more than the %d that are read", len(m.Files), maxFiles)
	}
	seen := make(map[string]bool)
	all := int64(0)
	for _, f := range m.Files {
		if !fs.ValidPath(f.Name) || f.Name == "." || f.Name == manifestName || f.Name == hashName || seen[f.Name] {
			return fmt.Errorf("%s lists a file %q, which no bundle has", manifestName, f.Name)
		}
		seen[f.Name] = true
		if f.Size < 0 || f.Size > maxFile {
			return fmt.Errorf("%s claims %d bytes, more than the %d that are read", f.Name, f.Size, maxFile)
		}
		all += f.Size
	}
	if all > maxAll {
		return fmt.Errorf("it claims %d bytes in all, more than the %d that are read", all, int64(maxAll))
	}
	return nil
}

func changed(file string) error {
	return fmt.Errorf("%s is not as it was written: the bundle was damaged or changed; get another copy", file)
}
