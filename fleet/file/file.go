// Package file reads and writes fleet files: YAML documents that hold Pool objects
// (berth.dev/v1alpha1). It carries the presets that `berth up --fleet NAME` offers.
//
// Reading is strict, because a typo in a fleet is otherwise found an hour later as a node
// that is not there: every mistake in a file is reported with its line, its field and what
// to do, all of them at once. Nothing is read but the file; making nodes out of the Pools
// is the work of package fleet, and the shape of a Pool belongs to api/v1alpha1.
//
// The CLI calls Load, the fleet's controller calls Check on objects from the API server.
// The format is described in docs/fleet-file.md.
package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Parse reads the pools of a fleet file in their order, with defaults filled in. The name is
// what errors call the file. Anything wrong comes back as Errors. What only the API server
// writes (status, uid, resourceVersion, ...) is accepted and dropped, so that the output of
// `kubectl get pools -o yaml` is a fleet file.
func Parse(name string, data []byte) ([]v1alpha1.Pool, error) {
	p := &parser{file: name}
	p.read(data)
	p.crossCheck()
	if len(p.errs) > 0 {
		return nil, p.errs.sorted()
	}
	pools := make([]v1alpha1.Pool, 0, len(p.pools))
	for _, at := range p.pools {
		pools = append(pools, at.pool)
	}
	return pools, nil
}

// mostBytes bounds a fleet file: it is room for some thousand Pools.
const mostBytes = 4 << 20

// read reads the file, which may be a device or a pipe without an end.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(data) > mostBytes {
		err = fmt.Errorf("%s is larger than %d MiB", path, mostBytes>>20)
	}
	return data, err
}

// Load reads the pools that a user names: a preset, or else a file. A file that is called
// like a preset is reached as ./NAME.
func Load(arg string) ([]v1alpha1.Pool, error) {
	var names []string
	for _, preset := range Presets() {
		names = append(names, preset.Name)
	}
	if slices.Contains(names, arg) {
		return Preset(arg)
	}
	data, err := read(arg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fleet %q is neither a preset nor a file%s; presets: %s",
			arg, suggest(arg, names), strings.Join(names, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("read fleet file: %w", err)
	}
	return Parse(arg, data)
}
