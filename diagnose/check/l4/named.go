package l4

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// namesNothing finds a reference in the object's spec, a map with a kind and a name, that a message is about and that names no object,
// although objects of its kind were read: where it is, what it names, and what there is of the kind. "": there is no such reference.
func namesNothing(f *facts.Facts, u *unstructured.Unstructured, message string) (field, name, others string) {
	var walk func(path string, v any) bool
	walk = func(path string, v any) bool {
		switch v := v.(type) {
		case []any:
			return slices.ContainsFunc(v, func(item any) bool { return walk(path+"[]", item) })
		case map[string]any:
			kind, _ := v["kind"].(string)
			to, _ := v["name"].(string)
			if kind != "" && to != "" && strings.Contains(message, to) {
				if there, read := namesOf(f, u.GetNamespace(), kind); read && !slices.Contains(there, to) {
					field, name = path+".name", to
					if others = wording.Few(there); others == "" {
						others = "none"
					}
					return true
				}
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if walk(path+"."+key, v[key]) {
					return true
				}
			}
		}
		return false
	}
	walk("spec", u.Object["spec"])
	return field, name, others
}

// namesOf are the names of the objects of the kind that something in the namespace can refer to; read is false where the kind was not read.
func namesOf(f *facts.Facts, namespace, kind string) (out []string, read bool) {
	for _, k := range f.Objects.Kinds() {
		if k.Kind != kind || !f.Sees(k.Name(), namespace) {
			continue
		}
		read = true
		for _, o := range k.List(&f.Objects) {
			if o.GetNamespace() == "" || o.GetNamespace() == namespace {
				out = append(out, o.GetName())
			}
		}
	}
	slices.Sort(out)
	return out, read
}
