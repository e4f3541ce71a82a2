package file

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
)

//go:embed presets/*.yaml
var presets embed.FS

// Info tells users of a preset.
type Info struct {
	Name    string
	Summary string // one sentence without a full stop: the first line of the file
}

// Presets lists the fleets that come with Berth, by name.
func Presets() []Info {
	paths, _ := fs.Glob(presets, "presets/*.yaml")
	infos := make([]Info, 0, len(paths))
	for _, p := range paths {
		text, _ := presets.ReadFile(p) // embedded: it is there
		first, _, _ := strings.Cut(string(text), "\n")
		infos = append(infos, Info{
			Name:    strings.TrimSuffix(path.Base(p), ".yaml"),
			Summary: strings.TrimPrefix(first, "# "),
		})
	}
	return infos
}

// Preset reads the preset of that name.
func Preset(name string) ([]v1alpha1.Pool, error) {
	text, err := PresetText(name)
	if err != nil {
		return nil, err
	}
	return Parse("preset "+name, text)
}

// PresetText is the file behind a preset, comments and all: a start for a fleet of one's own.
func PresetText(name string) ([]byte, error) {
	text, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no preset %q", name)
	}
	return text, nil
}
