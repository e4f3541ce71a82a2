package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// writers bounds the file system calls under way: each holds a thread of the process, and
	// ten thousand programs may checkpoint in the same second.
	writers    = 4
	tempSuffix = ".tmp"
)

// fileStore keeps one file per key. A file is replaced by rename after it is on disk, so a
// crash leaves the old checkpoint or the new one, and at worst a temporary file beside it.
type fileStore struct {
	dir   string
	slots chan struct{}
}

// record is a file's content. Key makes it readable for people; Sum, over the other two,
// tells a damaged file from a good one.
type record struct {
	Key   string `json:"key"`
	Steps int64  `json:"steps"`
	Sum   uint32 `json:"sum"`
}

func (r record) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%d %s", r.Steps, r.Key))
}

// openFileStore makes dir and clears away what a crash in the middle of a write left.
func openFileStore(dir string) (*fileStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	torn, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	if err != nil {
		return nil, fmt.Errorf("checkpoint store: %w", err)
	}
	for _, path := range torn {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("checkpoint store: %w", err)
		}
	}
	return &fileStore{dir: dir, slots: make(chan struct{}, writers)}, nil
}

// path is the key's file. The name is a digest: keys hold what users wrote, slashes and all.
func (s *fileStore) path(key string) string {
	digest := sha256.Sum256([]byte(key))
	return filepath.Join(s.dir, hex.EncodeToString(digest[:])+".json")
}

// slot takes one of the writers' places; the returned function gives it back.
func (s *fileStore) slot() (release func()) {
	s.slots <- struct{}{}
	return func() { <-s.slots }
}

func (s *fileStore) Load(key string) (Progress, bool, error) {
	defer s.slot()()
	data, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Progress{}, false, nil
	}
	if err != nil {
		return Progress{}, false, fmt.Errorf("read checkpoint of %s: %w", key, err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return Progress{}, false, fmt.Errorf("read checkpoint of %s: corrupt: %w", key, err)
	}
	if r.Key != key || r.Steps < 0 || r.Sum != r.sum() {
		return Progress{}, false, fmt.Errorf("read checkpoint of %s: corrupt: checksum does not match", key)
	}
	return Progress{Steps: r.Steps}, true, nil
}

func (s *fileStore) Save(key string, p Progress) error {
	r := record{Key: key, Steps: p.Steps}
	r.Sum = r.sum()
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("save checkpoint of %s: %w", key, err)
	}
	defer s.slot()()
	if err := s.replace(s.path(key), data); err != nil {
		return fmt.Errorf("save checkpoint of %s: %w", key, err)
	}
	return nil
}

func (s *fileStore) Delete(key string) error {
	defer s.slot()()
	if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete checkpoint of %s: %w", key, err)
	}
	return nil
}

// replace puts data in the place of path's content, all or nothing.
func (s *fileStore) replace(path string, data []byte) error {
	temp, err := os.CreateTemp(s.dir, "*"+tempSuffix)
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return s.syncDir()
}

// syncDir makes a rename last.
func (s *fileStore) syncDir() error {
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
