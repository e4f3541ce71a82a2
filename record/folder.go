package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// folder is where segments are files: decisions-000042-20261115T083000Z.zst. The number orders them, for a
// clock may go back; the time is for people.
type folder struct {
	path string
	// create makes a file that must not exist.
	create func(path string) (io.WriteCloser, error)
}

func newFolder(path string) folder {
	return folder{path: path, create: func(path string) (io.WriteCloser, error) {
		return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}}
}

// file is one segment as the folder shows it.
type file struct {
	path   string
	number int
	size   int64 // bytes on disk
}

var fileName = regexp.MustCompile(`^decisions-(\d{6,9})-\d{8}T\d{6}Z\.zst$`)

// list is the segments there are, oldest first. A folder that is missing has none.
func (f folder) list() ([]file, error) {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed since, or not ours
		}
		number, _ := strconv.Atoi(m[1])
		files = append(files, file{path: filepath.Join(f.path, e.Name()), number: number, size: info.Size()})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.path, b.path)) })
	return files, nil
}

// next creates the file of the segment after those listed.
func (f folder) next(files []file, start time.Time) (string, io.WriteCloser, error) {
	number := 1
	if len(files) > 0 {
		number = files[len(files)-1].number + 1
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return "", nil, err
	}
	path := filepath.Join(f.path, fmt.Sprintf("decisions-%06d-%s.zst", number, start.UTC().Format("20060102T150405Z")))
	w, err := f.create(path)
	return path, w, err
}

// prune removes the oldest files until they and the one being written, of the size, take no more than limit. It
// returns those that stay.
func prune(files []file, writing, limit int64) []file {
	total := writing
	for _, f := range files {
		total += f.size
	}
	for len(files) > 0 && total > limit {
		os.Remove(files[0].path) // what cannot be removed now is found again when the next segment begins
		total -= files[0].size
		files = files[1:]
	}
	return files
}
