// Package dialecttest has what the tests of dialects share.
package dialecttest

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/kube/dialect"
)

// Object is the object of the YAML.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// Page holds the end of a page of docs, its table field by field, against the dialect's own, or writes it anew.
func Page(t *testing.T, d dialect.Dialect, page string, update bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(text), "\n## Field by field\n")
	want := head + "\n## Field by field\n\n" + dialect.Table(d)
	if update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !ok || string(text) != want {
		t.Errorf("%s does not have the table of Fields: run this test with -update", page)
	}
}
