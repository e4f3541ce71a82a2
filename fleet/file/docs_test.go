package file

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/gpu"
)

const page = "../../docs/fleet-file.md"

// TestPageHasEveryField wants a row in the table for each field of the spec.
func TestPageHasEveryField(t *testing.T) {
	text := readPage(t)
	for _, path := range fieldPaths(reflect.TypeFor[v1alpha1.PoolSpec](), "") {
		if !strings.Contains(text, "\n| `"+path+"` |") {
			t.Errorf("%s has no row for %s", page, path)
		}
	}
}

// fieldPaths lists the fields below t as the page writes them: gpus[].count.
func fieldPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for _, name := range writable(t) {
		path, inner := prefix+name, fieldType(t, name)
		paths = append(paths, path)
		if t.Field(jsonFields(t)[name]).Type.Kind() == reflect.Slice {
			path += "[]"
		}
		paths = append(paths, fieldPaths(inner, path+".")...)
	}
	return paths
}

func TestPageHasEveryRow(t *testing.T) {
	text := readPage(t)
	for _, info := range Presets() {
		if row := fmt.Sprintf("\n| `%s` | %s |\n", info.Name, info.Summary); !strings.Contains(text, row) {
			t.Errorf("%s lacks the row of a preset:%s", page, row)
		}
	}
	for _, m := range gpu.Models() {
		if !regexp.MustCompile(`[\s]` + regexp.QuoteMeta(m.Name) + `[,.]`).MatchString(text) {
			t.Errorf("%s does not list the model %s", page, m.Name)
		}
	}
	if !regexp.MustCompile(`(?m)^\| 20\d\d-\d\d-\d\d \| .` + v1alpha1.GroupVersion.String() + `. \|`).MatchString(text) {
		t.Errorf("%s has no dated line for %s", page, v1alpha1.GroupVersion)
	}
}

// TestPageExamples reads the YAML on the page, and wants of it what the text says it makes.
func TestPageExamples(t *testing.T) {
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readPage(t), -1) {
		pools, err := Parse(page, []byte(block[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := len(describeNodes(pools)); got != 9 {
			t.Errorf("the example makes %d nodes, the text says nine", got)
		}
		if got := pools[0].Spec.Driver.CUDA; got != "12.8" {
			t.Errorf("the example's driver runs CUDA %s, the text says 12.8", got)
		}
	}
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
